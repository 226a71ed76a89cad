"""Pools, their scores and what the pick is worth, with policies and scorers made for the tests."""

import json
from fractions import Fraction
from itertools import combinations

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_data.tasks import TaskPrompt
from carb_scorers.bon_picks import (
    bon_curve,
    expected_pick,
    grade,
    pick_weights,
    sample,
    score_samples,
    tidy,
)
from carb_scorers.generate.writers import derived_seed
from carb_scorers.models import Generation
from carb_scorers.models.protocol import Failure
from carb_scorers.scorer import ScoreError
from fake_scorer import FakeScorer


class CountTask:
    """The worth of an answer is the number that it is."""

    name = "count:none"
    instruction = "Count."
    shots = (("1?", "1"),)
    one_line = True

    def __init__(self, size=3):
        self.prompts = tuple(
            TaskPrompt(
                id=f"p{n}",
                text=f"Question {n}",
                culture="thai",
                language="th",
                source_item=f"s{n // 2}",
            )
            for n in range(size)
        )

    def grade(self, prompt_id, text):
        return None if text == "?" else float(text) / 10


class CountingModel:
    """Sample i of prompt p is (7i + p) mod 10; it remembers what it was asked."""

    model, revision, in_flight = "count", "1", None

    def __init__(self, fail=()):
        self.asked = []
        self.fail = fail

    async def generate(self, prompts, writing):
        places = []
        for prompt, seed in zip(prompts, writing.seed, strict=True):
            number = int(prompt.messages[-1].content.rpartition(" ")[2])
            places.append((number, next(i for i in range(99) if derived_seed(0, i) == seed)))
        self.asked += places
        return [self.one(*place) for place in places]

    def one(self, prompt, index):
        if (prompt, index) in self.fail:
            return Failure(ScoreError(kind="http", message="gone"))
        return Generation(f"Answer: {(7 * index + prompt) % 10}")

    async def aclose(self):
        pass


def by_text(function):
    """Scores a text by a function of it."""
    return FakeScorer(lambda texts: [function(text) for text in texts])


@pytest.fixture
def draw(backend, tmp_path):
    def draw(n=8, task=None, model=None, file="pool.jsonl", **options):
        policy = backend(model or CountingModel())
        return anyio.run(lambda: sample(policy, task or CountTask(), n, tmp_path / file, **options))

    return draw


def errors(pool):
    return sum(one.error is not None for row in pool.values() for one in row)


def score(pool, task, scorer, folder=None):
    return anyio.run(lambda: score_samples(pool, task, scorer, folder))


class TestSampling:
    def test_samples_are_drawn_once_and_extended(self, draw):
        model = CountingModel()
        small = draw(4, model=model)
        assert [s.text for s in small["p1"]] == ["1", "8", "5", "2"]
        large = draw(8, model=model)
        assert {key: row[:4] for key, row in large.items()} == small
        assert len(model.asked) == len(set(model.asked)) == 24
        assert draw(4, model=model) == small

    def test_a_torn_line_is_drawn_again(self, draw, tmp_path):
        path = tmp_path / "pool.jsonl"
        whole = draw()
        *_, torn = path.read_bytes().splitlines()
        path.write_bytes(path.read_bytes()[:-20])
        model = CountingModel()
        assert draw(model=model) == whole
        assert model.asked == [
            (int(one["prompt_id"][1:]), one.get("index", 0)) for one in json.loads(torn)
        ]

    def test_failed_samples_are_rows_and_are_asked_again(self, draw):
        pool = draw(4, model=CountingModel(fail={(1, 2)}))
        assert errors(pool) == 1
        assert pool["p1"][2].error == "http: gone"
        model = CountingModel()
        assert errors(draw(4, model=model)) == 0
        assert model.asked == [(1, 2)]

    def test_another_model_or_task_is_refused(self, draw):
        draw()
        other = CountingModel()
        other.revision = "2"
        with pytest.raises(CarbError, match="revision differ"):
            draw(model=other)
        with pytest.raises(CarbError, match="prompts differ"):
            draw(task=CountTask(4))

    def test_an_answer_that_stops_before_its_first_word_is_asked_again(self, draw):
        class Breaks(CountingModel):
            async def generate(self, prompts, writing):
                found = await super().generate(prompts, writing)
                return [Generation("\n") for _ in found] if writing.stop else found

        assert [s.text for s in draw(2, model=Breaks())["p1"]] == ["1", "8"]


class TestScoring:
    def test_a_scorer_sees_each_distinct_text_once_and_nothing_else(self, draw):
        task, scorer = CountTask(1), by_text(float)
        pool = draw(16, task)
        scores = score(pool, task, scorer)
        (request,) = scorer.requests
        assert request.prompt == "Question 0"
        assert sorted(c.text for c in request.candidates) == [str(n) for n in range(10)]
        assert [c.id for c in request.candidates] == [str(n) for n in range(1, 11)]
        assert scores["p0"] == tuple(float(s.text) for s in pool["p0"])

    def test_scores_are_kept_and_resumed(self, draw, tmp_path):
        task, scorer = CountTask(), by_text(float)
        pool = draw(task=task)
        first = score(pool, task, scorer, tmp_path / "scores")
        assert score(pool, task, scorer, tmp_path / "scores") == first
        assert len(scorer.requests) == 3
        more = score(
            draw(9, task=task), task, scorer, tmp_path / "scores"
        )  # each prompt has a new answer
        assert len(scorer.requests) == 6
        assert {key: row[:8] for key, row in more.items()} == first

    def test_a_failed_prompt_has_no_scores(self, draw):
        def only_even(text):
            if text == "1":
                raise ValueError("odd")
            return float(text)

        task = CountTask()
        pool = draw(1, task)
        assert len(score(pool, task, by_text(only_even))) == 3  # one answer leaves nothing to ask
        pool = draw(2, task)
        scores = score(pool, task, by_text(only_even))
        assert set(scores) == {"p0", "p2"}

    def test_empty_answers_are_not_shown_and_rank_last(self, draw):
        class Mute(CountingModel):
            def one(self, prompt, index):
                return Generation("" if index % 2 else str(index))

        task, scorer = CountTask(1), by_text(lambda text: -float(text))
        pool = draw(4, task, Mute())
        scores = score(pool, task, scorer)
        assert [c.text for c in scorer.requests[0].candidates if not c.text] == []
        assert scores["p0"] == (0.0, float("-inf"), -2.0, float("-inf"))
        assert bon_curve(pool, scores, grade(pool, task)).curve[-1].picked == 0


class TestOutcome:
    @pytest.fixture
    def result(self, draw):
        def result(function, n=4, task=None, model=None):
            task = task or CountTask()
            pool = draw(n, task, model)
            return bon_curve(pool, score(pool, task, by_text(function)), grade(pool, task))

        return result

    def test_by_hand(self, result):
        """Prompt 0 has 0, 7, 4, 1; the scorer likes small numbers, so it picks the worst."""
        found = result(lambda text: -float(text), task=CountTask(1))
        assert [point.n for point in found.curve] == [1, 2, 4]
        assert [point.picked for point in found.curve] == pytest.approx(
            [0.3, (0 * 3 + 0.1 * 2 + 0.4) / 6, 0.0]
        )
        assert [point.best for point in found.curve] == pytest.approx(
            [0.3, (0.7 * 3 + 0.4 * 2 + 0.1) / 6, 0.7]
        )
        assert (found.curve[-1].regret, found.picked) == (pytest.approx(0.7), {"p0": 0})

    def test_what_does_not_count_is_counted(self, result):
        class Unsure(CountingModel):
            def one(self, prompt, index):
                return Generation("?") if (prompt, index) == (0, 1) else super().one(prompt, index)

        def not_nine(text):
            if text == "9":
                raise ValueError
            return 0.0

        found = result(not_nine, task=CountTask(4), model=Unsure(fail={(1, 0)}))
        assert (found.ungraded, found.short, found.errors) == (1, 1, 1)  # prompt 2 has 2, 9, 6, 3
        assert list(found.picked) == ["p3"]

    def test_nothing_counts_gives_an_empty_curve(self, result):
        def never(text):
            raise ValueError

        assert result(never).curve == ()


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
        rows = [
            {"prompt_id": "p0", "responses": ["1", "2"]},
            {"prompt_id": "p1", "text": "Answer: 3\nx"},
        ]
        rows.append({"prompt_id": "p0", "text": "4"})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        pool = anyio.run(sample, f"file:{file}", CountTask(2), 3, tmp_path / "pool.jsonl")
        assert [s.text for s in pool["p0"]] == ["1", "2", "4"]
        assert [(s.text, s.error is None) for s in pool["p1"]] == [
            ("3", True),
            ("", False),
            ("", False),
        ]

    @pytest.mark.parametrize(
        ("content", "spec", "told"),
        [
            ("{}\n", "file:{file}", "prompt_id: is missing"),
            ('{"prompt_id": "a", "text": 1}\n', "file:{file}", "must be a text"),
            ("", "file:{file}?x=1", "takes no options"),
            ("", "file:{file}.absent", "Cannot read the responses"),
            ("", "gpt:x", "cannot write; name a language model as hf, openai, vllm"),
        ],
    )
    def test_mistakes_are_told(self, tmp_path, content, spec, told):
        file = tmp_path / "responses.jsonl"
        file.write_text(content)
        with pytest.raises(CarbError) as caught:
            anyio.run(sample, spec.format(file=file), CountTask(2), 3, tmp_path / "pool.jsonl")
        assert told in str(caught.value)

    def test_each_sample_of_a_server_has_its_seed_and_a_refusal_is_an_error_row(
        self, serve, tmp_path
    ):
        pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
        from openai_server import chat, reply

        def script(_, body):
            refused = "Question 2" in body["messages"][-1]["content"]
            said = f"Answer: seed {body['seed']}\nand more"
            return reply({"error": {"message": "no"}}, 400) if refused else chat(said)

        server = serve(script)
        spec = f"openai:painter?url={server.url}&temperature=0.7&max_new_tokens=9"
        pool = anyio.run(sample, spec, CountTask(), 3, tmp_path / "pool.jsonl")
        texts = [sample.text for key in ("p0", "p1") for sample in pool[key]]
        assert len(set(texts)) == 6
        assert all(text.startswith("seed ") and "\n" not in text for text in texts)
        assert all(sample.error for sample in pool["p2"])
        first = server.bodies[0]
        assert (first["model"], first["max_tokens"], first["temperature"], first["stop"]) == (
            "painter",
            9,
            0.7,
            ["\n"],
        )
        assert [m["role"] for m in first["messages"]] == ["user", "assistant", "user"]


def brute_force(scores, qualities, n):
    """Mean quality of the pick over every subset of n; those who share the highest score share the
    pick."""
    total = Fraction(0)
    subsets = list(combinations(range(len(scores)), n))
    for subset in subsets:
        top = max(scores[i] for i in subset)
        winners = [i for i in subset if scores[i] == top]
        total += sum(Fraction(qualities[i]) for i in winners) / len(winners)
    return float(total / len(subsets))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 6)), min_size=1, max_size=8).flatmap(
        lambda pairs: st.tuples(st.just(pairs), st.integers(1, len(pairs)))
    )
)
def test_the_estimator_equals_brute_force_over_all_subsets(case):
    pairs, n = case
    scores, qualities = zip(*pairs, strict=True)
    assert expected_pick(scores, qualities, n) == pytest.approx(
        brute_force(scores, qualities, n), abs=1e-12
    )


def test_sizes_beyond_the_pool_and_scores_that_are_no_numbers_are_refused():
    for n in (0, 4):
        with pytest.raises(CarbError, match="has 3"):
            pick_weights([1, 2, 3], n)
    with pytest.raises(CarbError, match="NaN"):
        pick_weights([1.0, float("nan"), 0.5], 2)


def test_scores_that_differ_by_floating_noise_share_the_pick():
    assert pick_weights([0.1 + 0.2, 0.3, 0.1], 3) == [0.5, 0.5, 0.0]
