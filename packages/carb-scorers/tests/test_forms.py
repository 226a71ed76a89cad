"""Forms as data: what the shipped ones ask, that a published layout's verdicts are found, and files
of one's own."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import ScoreResult, ScorerSpec, Usage, open_scorer
from carb_scorers.jinja_filling import fill
from carb_scorers.judge import JudgeOptions, JudgeScorer, form_names, form_of, form_text, read_form
from carb_scorers.judge.form import Mode
from carb_scorers.judge.judge import with_defaults
from carb_scorers.judge.verdict import parse_pick, parse_rating
from carb_scorers.models.protocol import Generation, Prompt
from fake_scorer import request as about

PUBLISHED = [
    "mr3",
    "mr3-binary",
    "prometheus",
    "rewardbench2",
    "rm-r1",
    "rm-r1-reasoning",
    "skywork-critic",
]
FORMS = [(name, mode) for name in form_names() for mode in read_form(name).modes]

RM_R1 = """<type>Chat</type>

<rubric>
Fit (60%), warmth (40%)
<justify>A guest wants to fit in first.</justify>
</rubric>

<eval>
<quote_A>Shake hands</quote_A> ends with [[B]] in the text; <summary_B>bows</summary_B> fits better.
</eval>

<answer>[[B]]</answer>"""
MR3 = """<think>
If "score": "Assistant B" were right ... no.
</think>

{"explanation": "Assistant B names the wrong place.", "score": "Assistant A"}"""
PROMETHEUS = "Feedback: Response A says little. Response B names the dish, so B wins. [RESULT] B"


request = partial(about, "FIRST", "SECOND", "THIRD", "FOURTH", prompt="QUESTION")


class Writer:
    """A model that prefers SECOND, and writes that as ``answer(letter or None)`` does."""

    model, revision = "writer", "1"

    def __init__(self, answer: dict[str, str]) -> None:
        self.answer = answer
        self.asked: list[Prompt] = []

    async def generate(self, prompts: list[Prompt], _: object) -> list[Generation]:
        self.asked += prompts
        return [Generation(self.answer[self.key(p)], Usage(input_tokens=1)) for p in prompts]

    def key(self, prompt: Prompt) -> str:
        text = prompt.messages[-1].content
        shown = sorted(
            (text.index(word), word)
            for word in ("FIRST", "SECOND", "THIRD", "FOURTH")
            if word in text
        )
        words = [word for _, word in shown]
        if len(words) == 1:
            return "good" if words == ["SECOND"] else "bad"
        return "ABCD"[words.index("SECOND")] if "SECOND" in words else "A"

    async def aclose(self) -> None:
        pass


def judged(
    form: str, answer: dict[str, str], culture: str = "thai", **options: str
) -> tuple[ScoreResult, Writer]:
    read = JudgeOptions.model_validate(with_defaults({"form": form, **options}))
    writer = Writer(answer)
    spec = ScorerSpec(name="judge", kind="judge", model="writer", revision="1")
    (result,) = anyio.run(
        JudgeScorer(spec, writer, form_of(read)).score, [request(culture=culture)]
    )
    return result, writer


def test_every_published_form_is_shipped_and_says_whose_it_is() -> None:
    assert form_names() == sorted([*PUBLISHED, "culture", "plain"])
    for name in PUBLISHED:
        form = read_form(name)
        assert form.source is not None
        assert form.source.startswith("https://")
        assert form.licence
        assert form.note


@pytest.mark.parametrize(("name", "mode"), FORMS)
@pytest.mark.parametrize("culture", ["thai", "unspecified"])
def test_a_form_shows_the_question_and_the_candidates(name: str, mode: str, culture: str) -> None:
    answers = {
        letter: f"<answer>[[{letter}]]</answer> [RESULT] {letter} score: Assistant {letter}"
        for letter in "ABCD"
    }
    good = {"mr3-binary": "score: true", "mr3": "score: 5", "prometheus": "[RESULT] 5"}.get(
        name, "[[9]]"
    )
    bad = {"mr3-binary": "score: false", "mr3": "score: 2", "prometheus": "[RESULT] 2"}.get(
        name, "[[2]]"
    )
    result, writer = judged(
        name, {**answers, "good": good, "bad": bad}, culture, mode=mode, read="generate"
    )
    assert result.error is None, result.error
    assert max(result.scores, key=lambda key: result.scores[key]) == "c1"
    for prompt in writer.asked:
        roles = [turn.role for turn in prompt.messages]
        assert roles in (["user"], ["system", "user"])
        text = "\n".join(turn.content for turn in prompt.messages)
        assert "QUESTION" in text
        assert "unspecified" not in text
        assert text == text.strip()
        assert "{{" not in text
        assert "{%" not in text


@pytest.mark.parametrize(
    ("form", "mode", "text", "pick"),
    [
        ("rm-r1", "pairwise", RM_R1, 1),
        (
            "rm-r1-reasoning",
            "pairwise",
            "A is short. [[A]]?\n</think>\n\nB it is.\n<answer>[[B]]</answer>",
            1,
        ),
        ("mr3", "pairwise", MR3, 0),
        ("mr3", "pairwise", "{'explanation': 'It says score: high.', 'score': 'Assistant B'}", 1),
        ("prometheus", "pairwise", PROMETHEUS, 1),
        ("prometheus", "pairwise", 'It is close. [RESULT] "A"', 0),
        ("prometheus", "pairwise", "[RESULT] Response B", 1),
        ("prometheus", "pairwise", "Feedback: It depends. Result: A", 0),
        ("skywork-critic", "pairwise", "[[A]]", 0),
        ("rewardbench2", "listwise", 'Assistant C names the custom.\n\n"[[C]]"', 2),
    ],
)
def test_the_verdict_of_a_published_layout_is_found(
    form: str, mode: Mode, text: str, pick: int
) -> None:
    wording = read_form(form).wording(mode)
    assert parse_pick(text, "ABCD" if mode == "listwise" else "AB", wording) == pick


@pytest.mark.parametrize(
    ("form", "text", "rating"),
    [
        ("mr3", '{"explanation": "Mostly.", "score": "4"}', 4.0),
        ("mr3", "{'explanation': 'Mostly.', 'score': 2}", 2.0),
        ("mr3-binary", '{"explanation": "Right.", "score": true}', 1.0),
        ("prometheus", "Feedback: Fine. [RESULT] 5", 5.0),
        ("prometheus", "Feedback: A score of 2 would be too low. Score: 4", 4.0),
        ("prometheus", "Feedback: Fine. [SCORE] 4", 4.0),
        ("prometheus", "Feedback: Fine. 4/5", 4.0),
        ("prometheus", "Feedback: Fine. [RESULT] 4/5", 4.0),
    ],
)
def test_the_rating_of_a_published_layout_is_found(form: str, text: str, rating: float) -> None:
    assert parse_rating(text, read_form(form).wording("pointwise")) == rating


def test_a_judge_of_ones_own_is_a_file(tmp_path: Path) -> None:
    form = tmp_path / "mine.toml"
    form.write_text(
        "title = 'mine'\n[defaults]\nmax_tokens = 9\n[pairwise]\nverdict = 'winner=(.)'\n"
        "user = '{{ culture }} / {{ prompt }} / {{ candidates[0].text }} {{ "
        "candidates[1].text }}'\n"
    )
    result, writer = judged(str(form), {"A": "winner=A", "B": "so winner=B"}, tell="culture")
    assert result.error is None
    assert writer.asked[0].messages[0].content == "Thai / QUESTION / FIRST SECOND"
    as_json = tmp_path / "mine.json"
    as_json.write_text(
        json.dumps({"title": "mine", "pairwise": {"user": "{{ prompt }}", "verdict": "winner=(.)"}})
    )
    assert read_form(str(as_json)).modes == ("pairwise",)
    copy = tmp_path / "copy.toml"
    copy.write_text(form_text("rm-r1"))
    assert read_form(str(copy)) == read_form("rm-r1")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("title = 'x'", "a form needs at least one of the tables listwise, pairwise, pointwise"),
        ("[pairwise]\nuser = ''", "title is missing"),
        (
            "title = 'x'\n[pairwise]\nuser = ''\nverdict = '('",
            "pairwise.verdict: not a regular expression",
        ),
        (
            "title = 'x'\n[pairwise]\nuser = ''\nverdict = 'a'",
            "pairwise.verdict: a verdict pattern has exactly one gr",
        ),
        ("title = 'x'\n[pairwise]\nuser = '{{'", "pairwise.user: not a Jinja template"),
        ("title = 'x'\n[pairwise]\nuser = ''\ntakes = 'last'", "'pairwise.takes' is unknown"),
        ("title = 'x'\npairwse = {}", "'pairwse' is unknown, did you mean 'pairwise'?"),
        (
            "title = 'x'\n[pointwise]\nuser = ''\nscale = [5, 1]",
            "pointwise.scale: a scale goes from a lower",
        ),
        ("title = ", "is not TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_field(
    tmp_path: Path, content: str, said: str
) -> None:
    form = tmp_path / "mine.toml"
    form.write_text(content)
    with pytest.raises(CarbError) as raised:
        open_scorer(f"judge:{tmp_path}?form={form}")
    assert str(form) in str(raised.value)
    assert said in str(raised.value)


def test_templates_cannot_reach_python(tmp_path: Path) -> None:
    form = tmp_path / "evil.toml"
    form.write_text(
        "title = 'x'\n[listwise]\nuser = '{{ prompt.__class__.__mro__[1].__subclasses__() }}'"
    )
    with pytest.raises(CarbError, match=r"listwise\.user of 'x' cannot be filled"):
        open_scorer(f"judge:{tmp_path}?form={form}")
    form.write_text("title = 'x'\n[listwise]\nuser = '{{ candidate }}'")
    with pytest.raises(CarbError, match="It may use candidates, count, culture"):
        open_scorer(f"judge:{tmp_path}?form={form}")


@pytest.mark.parametrize(
    "code",
    [
        "{% include 'other' %}",
        "{% import 'other' as o %}",
        "{% extends 'other' %}",
        "{{ ['{0}'] | map('format', cycler) | list }}",
        "{{ 1 / 0 }}",
        "{{ range(10 ** 9) | list }}",
        "{{ 'a' + 1 }}",
    ],
)
def test_a_template_that_fails_is_a_sentence(code: str) -> None:
    with pytest.raises(CarbError, match="x cannot be filled"):
        fill(code, {"prompt": "?"}, "x")
