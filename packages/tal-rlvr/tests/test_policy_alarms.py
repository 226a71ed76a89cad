"""Alarms and preferences, by hand; nothing here needs torch."""

import pytest

from carb_data import CarbError
from carb_data.tasks import TaskPrompt
from carb_metrics import paired_difference
from carb_scorers import ScoreResult, ScorerSpec
from carb_scorers.bon import PolicySpec, PoolScores, Sample, SamplePool
from carb_scorers.bon.samples import PoolHead
from tal_rlvr.policy import Limits, PolicyConfig, TextStats, alarms, preference_pairs, read_limits, text_stats
from tal_rlvr.policy.alarms import overoptimised, windows
from tal_rlvr.policy.evaluating import TaskPart, apart, difference, divide
from tal_rlvr.policy.results import LoggedStep
from tal_rlvr.policy.rewards import ScorerReward
from tal_rlvr.policy.run import alarms_of, first_of_each


def stats(**changes):
    fields = {"answers": 8, "length": 20.0, "empty": 0.0, "in_language": 1.0, "repetition": 0.0, "same": 0.1}
    return TextStats(**{**fields, **changes})


def kinds(now, before=None, **options):
    return [alarm.kind for alarm in alarms(before or stats(), now, **options)]


class TestStats:
    def test_by_hand(self):
        found = text_stats(["a b c d", "a b c a b c a", "", "a b c d"], ["p", "p", "q", "p"], ["zh", "zh", "zh", "zh"])
        assert found.answers == 4
        assert found.length == pytest.approx((7 + 13 + 0 + 7) / 4)
        assert found.empty == 0.25
        # abc, bcd twice: nothing repeats; abc bca cab abc bca: two of five repeat
        assert found.repetition == pytest.approx((0 + 2 / 5 + 0) / 3)
        assert found.same == pytest.approx(2 / 6)  # of three samples of p, one pair of three is the same

    def test_a_script_of_its_own_needs_no_detector(self):
        pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
        assert text_stats(["红包", "money"], ["p", "p"], ["zh", "zh"]).in_language == 0.5

    def test_nothing_gives_nulls(self):
        found = text_stats([], [], [])
        assert (found.answers, found.length, found.repetition, found.same) == (0, None, None, None)
        assert text_stats(["a"], ["p"], ["zh"]).same is None


class TestAlarms:
    def test_silence(self):
        assert kinds(stats()) == []
        assert kinds(stats(length=29.0, in_language=0.91, repetition=0.09, same=0.4)) == []

    @pytest.mark.parametrize(
        ("change", "kind"),
        [
            ({"length": 31.0}, "length"),
            ({"length": 13.0}, "length"),
            ({"in_language": 0.8}, "language"),
            ({"repetition": 0.2}, "repetition"),
            ({"same": 0.9}, "collapse"),
            ({"empty": 0.2}, "empty"),
        ],
    )
    def test_each_alarm_is_raised_for_itself(self, change, kind):
        assert kinds(stats(**change)) == [kind]

    def test_kl_and_limits(self):
        assert kinds(stats(), kl=11.0) == ["kl"]
        assert kinds(stats(length=31.0), limits=Limits(length=2)) == []
        (alarm,) = alarms(stats(), stats(length=40.0), step=7)
        assert (alarm.step, alarm.before, alarm.now) == (7, 20, 40)
        assert "2.00 times" in alarm.message

    def test_limits_are_read_as_they_are_written(self):
        assert read_limits(()) == Limits()
        read = read_limits(["length=2.0", " kl = 5", "window=16"])
        assert read == Limits(length=2, kl=5, window=16)
        assert Limits.model_validate_json(read.model_dump_json()) == read

    @pytest.mark.parametrize(
        ("texts", "told"),
        [
            (["lenght=2"], "'lenght'. Did you mean 'length'? There are: length, language, repetition, same, empty"),
            (["collapse=1"], "no limit 'collapse'. There are: length"),
            (["length"], "'length' is not of the form name=number"),
            (["kl=5", "kl=6"], "'kl' is given twice"),
            (["kl=far"], "kl: Input should be a valid number"),
            (["kl=nan"], "got 'nan'"),
            (["length=0.5", "window=2.5"], "length: Input should be greater than or equal to 1, got '0.5'; window: "),
            (["grade=-1"], "got '-1'"),
        ],
    )
    def test_wrong_limits_are_told(self, texts, told):
        with pytest.raises(CarbError) as caught:
            read_limits(texts)
        assert told in str(caught.value)

    def test_unknown_measures_are_silent(self):
        unknown = stats(length=None, in_language=None, repetition=None, same=None, empty=None)
        assert kinds(unknown) == []
        assert kinds(stats(length=100.0), before=unknown) == []

    def test_reward_up_and_grade_down(self):
        assert overoptimised((0.0, 1.0), (0.5, 0.4)).kind == "overoptimised"
        for reward, grade in (((0.0, 1.0), (0.4, 0.5)), ((1.0, 0.0), (0.5, 0.4)), ((None, 1.0), (0.5, 0.4))):
            assert overoptimised(reward, grade) is None

    def test_a_fall_within_the_limit_is_silent_and_a_task_is_named(self):
        assert overoptimised((0.0, 1.0), (0.5, 0.49)) is None
        assert overoptimised((0.0, 1.0), (0.5, 0.49), Limits(grade=0)).kind == "overoptimised"
        assert "the grade of choice fell by 0.1" in overoptimised((0.0, 1.0), (0.5, 0.4), task="choice").message

    def test_windows_hold_the_latest_answers(self):
        samples = {1: (["p"], ["a"]), 2: (["p", "q"], ["b", "c"]), 4: (["q"], ["d"])}
        assert list(windows(samples, 3)) == [
            ((1, 2), ["p", "p", "q"], ["a", "b", "c"]),
            ((2, 4), ["p", "q", "q"], ["b", "c", "d"]),
        ]
        assert list(windows(samples, 5)) == []
        assert [steps for steps, *_ in windows(samples, 1)] == [(1,), (2,), (4,)]

    def test_training_is_judged_over_windows(self):
        """Four steps of two answers; limits over four: one long answer is not yet an alarm, three of four are."""
        texts = {1: ["x" * 20] * 2, 2: ["x" * 20, "y" * 30], 3: ["x" * 45, "y" * 40], 4: ["x" * 40, "z" * 41]}
        samples = {step: (["p0", "p1"], row) for step, row in texts.items()}
        curve = [LoggedStep(step=step, kl=kl) for step, kl in ((1, None), (2, 8.0), (3, 11.0), (4, 12.0))]
        run = PolicyConfig(policy="p", scorer="s", task="t", out="o", limits={"window": 4})
        before = stats(same=1.0, in_language=None, repetition=1.0)
        rung = alarms_of(run, TaskPart(Numbered(4), tuple(map(prompt, range(4)))), before, curve, samples)
        assert [(alarm.kind, alarm.step) for alarm in rung] == [("length", 3), ("kl", 4)]
        assert rung[0].now == pytest.approx((20 + 30 + 45 + 40) / 4)
        assert rung[1].now == pytest.approx(11.5)

    def test_only_the_first_of_a_kind(self):
        rung = [a for step in (1, 2) for a in alarms(stats(), stats(length=99.0, same=1.0), step=step)]
        assert [(a.kind, a.step) for a in first_of_each(rung)] == [("length", 1), ("collapse", 1)]


def prompt(number):
    return TaskPrompt(
        id=f"p{number}", text=f"Question {number}", culture="thai", language="th", source_item=f"s{number // 2}"
    )


class LengthScorer:
    """Longer is better; "fail" fails."""

    spec = ScorerSpec(name="length", kind="test")

    def __init__(self):
        self.requests = []

    async def score(self, requests):
        self.requests += requests
        return [
            ScoreResult.model_validate({"request_id": r.request_id, "error": {"kind": "test", "message": "no"}})
            if any(c.text == "fail" for c in r.candidates)
            else ScoreResult(request_id=r.request_id, scores={c.id: float(len(c.text)) for c in r.candidates})
            for r in requests
        ]

    async def aclose(self):
        pass


class TestReward:
    def reward(self, scorer=None, **options):
        prompts = {p.id: p for p in map(prompt, range(3))}
        return ScorerReward(scorer or LengthScorer(), prompts, one_line=True, **options)

    def test_a_group_is_one_request_of_different_answers(self):
        scorer, seen = LengthScorer(), []
        reward = self.reward(scorer, on_answers=lambda *batch: seen.append(batch))
        completions = [" Answer: ab\nmore", "abc", "ab", [{"role": "assistant", "content": "x"}], ""]
        found = reward(completions, prompt_id=["p0", "p0", "p0", "p1", "p1"], prompts=[None] * 5, other=1)
        assert found == [2, 3, 2, 1, 1]  # the empty answer has the lowest of its group
        assert [sorted(c.text for c in r.candidates) for r in scorer.requests] == [["ab", "abc"], ["x"]]
        assert [r.prompt for r in scorer.requests] == ["Question 0", "Question 1"]
        assert seen == [(0, ["p0", "p0", "p0", "p1", "p1"], ["ab", "abc", "ab", "x", ""])]

    def test_what_cannot_be_scored_has_no_reward(self):
        reward = self.reward()
        assert reward(["fail", "ab", "abc", ""], prompt_id=["p0", "p0", "p1", "p2"]) == [None, None, 3, None]
        assert reward.failed == 3


def test_preferences_by_hand():
    def row(key, texts):
        return tuple(Sample(prompt_id=key, index=i, text=text) for i, text in enumerate(texts))

    samples = {
        "a": row("a", ["x", "yy", "zzz", "www"]),
        "b": row("b", ["same", "same"]),
        "c": row("c", ["one", "other"]),
        "d": row("d", ["", "some"]),
        "e": (Sample(prompt_id="e", index=0, error="gone"), Sample(prompt_id="e", index=1, text="x")),
    }
    head = PoolHead(policy=PolicySpec(name="p", kind="test"), task="t", prompts="0")
    scores = {"a": (1.0, 2.0, 3.0, 3.0), "b": (1.0, 1.0), "d": (float("-inf"), 1.0), "e": (1.0, 2.0)}
    found = preference_pairs(
        SamplePool(head=head, samples=samples),
        PoolScores(scorer=LengthScorer.spec, scores=scores, errors={"c": "failed"}),
    )
    assert found == [("a", "zzz", "x")]


class Numbered:
    """A task of numbered questions; two of them share a source item."""

    name, instruction, shots, one_line = "t", "", (), True

    def __init__(self, size):
        self.prompts = tuple(map(prompt, range(size)))


def test_the_difference_by_hand():
    """Source items {p0, p1} and {p2}: differences 1, 0 and 0.5, so 0.5, which two source items cannot settle."""
    part = TaskPart(Numbered(4), tuple(map(prompt, range(4))))
    before = {"p0": 0.0, "p1": 0.5, "p2": 0.25, "p3": None}
    found = difference(before, {"p0": 1.0, "p1": 0.5, "p2": 0.75, "p3": 1.0}, part)
    assert (found.value, found.prompts) == (0.5, 3)
    assert found.low <= 0 < found.value < found.high <= 1
    assert found.p >= 0.05
    moved = difference(before, {"p0": 1.0, "p1": 0.5, "p2": 0.25, "p3": 1.0}, part)
    expected = paired_difference([1.0, 0.5, 0.25], [0.0, 0.5, 0.25], ["a", "a", "b"])
    assert moved.value == pytest.approx(1 / 3)
    assert (moved.low, moved.high, moved.p) == (expected.low, expected.high, expected.p)
    assert difference(before, {"p0": 1.0}, part).low is None
    assert difference(before, {}, part).value is None


def test_a_further_task_asks_nothing_that_is_trained_on():
    train = TaskPart(Numbered(10), tuple(map(prompt, range(6))))
    assert [p.id for p in apart(Numbered(10), train, None).prompts] == ["p6", "p7", "p8", "p9"]
    with pytest.raises(CarbError, match="asks what is trained on"):
        apart(Numbered(6), train, None)


def test_a_source_item_is_on_one_side():
    train, held_out = divide(Numbered(200), 0.3, None, 0)
    assert len(train.prompts) + len(held_out.prompts) == 200
    assert 30 < len(held_out.prompts) < 90
    assert not {p.source_item for p in train.prompts} & {p.source_item for p in held_out.prompts}
