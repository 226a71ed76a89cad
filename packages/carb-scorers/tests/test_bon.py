"""Pools, their scores and what the pick is worth, with policies and scorers made for the tests."""

import json

import anyio
import pytest

from carb_data import CarbError
from carb_data.tasks import TaskPrompt
from carb_scorers.bon import bon_curve, collect, grade_pool, open_policy, score_pool
from carb_scorers.bon.policy import PolicySpec, Sample, tidy
from carb_scorers.scorer import ScoreResult, ScorerSpec, failed


class CountTask:
    """The worth of an answer is the number that it is."""

    name = "count:none"
    instruction = "Count."
    shots = (("1?", "1"),)
    one_line = True

    def __init__(self, size=3):
        self.prompts = tuple(
            TaskPrompt(id=f"p{n}", text=f"Question {n}", culture="thai", language="th", source_item=f"s{n // 2}")
            for n in range(size)
        )

    def grade(self, prompt_id, text):
        return None if text == "?" else float(text) / 10


class CountingPolicy:
    """Sample i of prompt p is (7i + p) mod 10; it remembers what it was asked."""

    def __init__(self, name="count", fail=()):
        self.spec = PolicySpec(name=name, kind="test", model="count", revision="1")
        self.asked = []
        self.fail = fail

    async def sample(self, prompts, indices):
        self.asked += [(prompt.id, index) for prompt in prompts for index in indices]
        found = [(prompt.id, index, self.one(int(prompt.id[1:]), index)) for prompt in prompts for index in indices]
        return [Sample(prompt_id=key, index=index, **fields) for key, index, fields in found]

    def one(self, prompt, index):
        if (prompt, index) in self.fail:
            return {"error": "http: gone", "finished": False}
        return {"text": str((7 * index + prompt) % 10)}

    async def aclose(self):
        pass


class FunctionScorer:
    """Scores a text by a function of it."""

    def __init__(self, function, name="function"):
        self.spec = ScorerSpec(name=name, kind="test")
        self.function = function
        self.requests = []

    async def score(self, requests):
        self.requests += requests
        return [self.one(request) for request in requests]

    def one(self, request):
        try:
            return ScoreResult(
                request_id=request.request_id, scores={c.id: self.function(c.text) for c in request.candidates}
            )
        except ValueError as error:
            return failed(request, "test", str(error))

    async def aclose(self):
        pass


def draw(path, n=8, task=None, policy=None, **options):
    task, policy = task or CountTask(), policy or CountingPolicy()
    return anyio.run(lambda: collect(policy, task, n, path, **options))


def score(pool, task, scorer, folder=None):
    return anyio.run(lambda: score_pool(pool, task, scorer, folder))


class TestCollecting:
    def test_samples_are_drawn_once_and_extended(self, tmp_path):
        policy = CountingPolicy()
        small = draw(tmp_path / "pool.jsonl", 4, policy=policy)
        assert [s.text for s in small.samples["p1"]] == ["1", "8", "5", "2"]
        large = draw(tmp_path / "pool.jsonl", 8, policy=policy)
        assert large.first(4) == small
        assert len(policy.asked) == len(set(policy.asked)) == 24
        assert draw(tmp_path / "pool.jsonl", 4, policy=policy) == small

    def test_a_torn_line_is_drawn_again(self, tmp_path):
        path = tmp_path / "pool.jsonl"
        whole = draw(path)
        content = path.read_bytes()
        path.write_bytes(content[:-20])
        policy = CountingPolicy()
        assert draw(path, policy=policy) == whole
        assert len(policy.asked) == 8 * 3  # the samples of one write are there all or not at all
        assert path.read_bytes() == content

    def test_failed_samples_are_rows_and_can_be_asked_again(self, tmp_path):
        path = tmp_path / "pool.jsonl"
        pool = draw(path, 4, policy=CountingPolicy(fail={(1, 2)}))
        assert pool.errors == 1
        assert pool.samples["p1"][2].error == "http: gone"
        policy = CountingPolicy()
        assert draw(path, 4, policy=policy).errors == 1
        assert policy.asked == []
        assert draw(path, 4, policy=policy, retry_errors=True).errors == 0
        assert policy.asked == [("p1", 2)]

    def test_another_policy_or_task_is_refused(self, tmp_path):
        path = tmp_path / "pool.jsonl"
        draw(path)
        other = CountingPolicy()
        other.spec = other.spec.model_copy(update={"revision": "2"})
        with pytest.raises(CarbError, match="another policy"):
            draw(path, policy=other)
        with pytest.raises(CarbError, match="other prompts"):
            draw(path, task=CountTask(4))
        with pytest.raises(CarbError, match="other prompts"):
            draw(path, shots=False)


class TestScoring:
    def test_a_scorer_sees_each_distinct_text_once_and_nothing_else(self, tmp_path):
        task, scorer = CountTask(1), FunctionScorer(float)
        pool = draw(tmp_path / "pool.jsonl", 16, task)
        scores = score(pool, task, scorer)
        (request,) = scorer.requests
        assert request.prompt == "Question 0"
        assert sorted(c.text for c in request.candidates) == [str(n) for n in range(10)]
        assert [c.id for c in request.candidates] == [str(n) for n in range(1, 11)]
        assert scores.scores["p0"] == tuple(float(s.text) for s in pool.samples["p0"])

    def test_scores_are_kept_and_resumed(self, tmp_path):
        task, scorer = CountTask(), FunctionScorer(float)
        pool = draw(tmp_path / "pool.jsonl", task=task)
        first = score(pool, task, scorer, tmp_path / "scores")
        assert score(pool, task, scorer, tmp_path / "scores") == first
        assert len(scorer.requests) == 3

    def test_a_failed_prompt_has_no_scores(self, tmp_path):
        def only_even(text):
            if text == "1":
                raise ValueError("odd")
            return float(text)

        task = CountTask()
        pool = draw(tmp_path / "pool.jsonl", 1, task)
        assert score(pool, task, FunctionScorer(only_even)).errors == {}  # one answer leaves nothing to ask
        pool = draw(tmp_path / "pool.jsonl", 2, task)
        scores = score(pool, task, FunctionScorer(only_even))
        assert scores.errors == {"p1": "test: odd"}
        assert set(scores.scores) == {"p0", "p2"}

    def test_empty_answers_are_not_shown_and_rank_last(self, tmp_path):
        class Mute(CountingPolicy):
            def one(self, prompt, index):
                return {"text": "" if index % 2 else str(index)}

        task, scorer = CountTask(1), FunctionScorer(lambda text: -float(text))
        pool = draw(tmp_path / "pool.jsonl", 4, task, Mute())
        scores = score(pool, task, scorer)
        assert [c.text for c in scorer.requests[0].candidates if not c.text] == []
        assert scores.scores["p0"] == (0.0, float("-inf"), -2.0, float("-inf"))
        result = bon_curve(pool, task, scores, grade_pool(pool, task))
        assert result.prompts[0].pick == 0


class TestOutcome:
    def run(self, tmp_path, function, n=4, task=None, policy=None):
        task = task or CountTask()
        pool = draw(tmp_path / "pool.jsonl", n, task, policy)
        return bon_curve(pool, task, score(pool, task, FunctionScorer(function)), grade_pool(pool, task))

    def test_by_hand(self, tmp_path):
        """Prompt 0 has 0, 7, 4, 1; the scorer likes small numbers, so it picks the worst."""
        result = self.run(tmp_path, lambda text: -float(text), task=CountTask(1))
        (outcome,) = result.prompts
        assert [point.n for point in result.curve] == [1, 2, 4]
        assert outcome.picked == pytest.approx((0.3, (0 * 3 + 0.1 * 2 + 0.4) / 6, 0.0))
        assert outcome.best == pytest.approx((0.3, (0.7 * 3 + 0.4 * 2 + 0.1) / 6, 0.7))
        assert (outcome.pick, outcome.mean) == (0, pytest.approx(0.3))
        last = result.curve[-1]
        assert (last.picked, last.best, last.regret, last.gain) == pytest.approx((0, 0.7, 0.7, -0.3))
        assert result.quality == 0

    def test_what_does_not_count_is_counted(self, tmp_path):
        class Unsure(CountingPolicy):
            def one(self, prompt, index):
                return {"text": "?"} if (prompt, index) == (0, 1) else super().one(prompt, index)

        def not_nine(text):
            if text == "9":
                raise ValueError
            return 0.0

        result = self.run(tmp_path, not_nine, task=CountTask(4), policy=Unsure(fail={(1, 0)}))
        assert (result.ungraded, result.short, result.errors) == (1, 1, 1)  # prompt 2 has 2, 9, 6, 3
        assert [outcome.prompt_id for outcome in result.prompts] == ["p3"]

    def test_nothing_counts_gives_null(self, tmp_path):
        def never(text):
            raise ValueError

        result = self.run(tmp_path, never)
        assert result.quality is None
        assert result.curve == ()


class TestPolicies:
    @pytest.mark.parametrize(
        ("text", "one_line", "tidied"),
        [
            (" Answer: x\ny", True, "x"),
            ("x\ny ", False, "x\ny"),
            ("\n", True, ""),
            ("Answers: x", True, "Answers: x"),
            ("<think>\nx, or y?\n</think>\n\nAnswer: y\nz", True, "y"),
            ("<think>", True, ""),  # so that it is asked again, to its own end
        ],
    )
    def test_answers_are_tidied(self, text, one_line, tidied):
        assert tidy(text, one_line=one_line) == tidied

    def test_responses_from_a_file(self, tmp_path):
        file = tmp_path / "responses.jsonl"
        rows = [{"prompt_id": "p0", "responses": ["1", "2"]}, {"prompt": "Question  1", "text": "Answer: 3\nx"}]
        rows.append({"prompt_id": "p0", "text": "4"})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        policy = open_policy(f"file:{file}")
        pool = draw(tmp_path / "pool.jsonl", 3, CountTask(2), policy)
        assert [s.text for s in pool.samples["p0"]] == ["1", "2", "4"]
        assert [(s.text, s.error is None) for s in pool.samples["p1"]] == [("3", True), ("", False), ("", False)]

    @pytest.mark.parametrize(
        ("content", "spec", "told"),
        [
            ("{}\n", "file:{file}", "responses.jsonl:1"),
            ('{"prompt_id": "a", "text": 1}\n', "file:{file}", "must be text"),
            ("", "file:{file}?x=1", "takes no options"),
            ("", "file:{file}.absent", "Cannot read the responses"),
            ("", "gpt:x", "Unknown policy kind 'gpt'"),
        ],
    )
    def test_mistakes_are_told(self, tmp_path, content, spec, told):
        file = tmp_path / "responses.jsonl"
        file.write_text(content)
        with pytest.raises(CarbError) as caught:
            open_policy(spec.format(file=file))
        assert told in str(caught.value)
