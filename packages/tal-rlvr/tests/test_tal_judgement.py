from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tal_rlvr import FormatError, Judgement, correctness_reward, parse_judgement
from tal_rlvr.judgement import before_verdict, write_judgement
from tal_rlvr.masking import has_content

GOOD = """Criteria:
- respect | elders are greeted first | weight 4 | meets B
- fact | rice is the staple | weight 2 | meets both
Assessment: B greets the elders.
A does not.
Verdict: B"""


def test_a_judgement_is_read_with_its_spans():
    judgement = parse_judgement(GOOD)
    assert isinstance(judgement, Judgement)
    assert judgement.verdict == "B"
    assert [(c.name, c.why, c.weight, c.meets) for c in judgement.criteria] == [
        ("respect", "elders are greeted first", 4, "B"),
        ("fact", "rice is the staple", 2, "both"),
    ]
    assert judgement.assessment == "B greets the elders.\nA does not."
    spans = judgement.assessment_span, judgement.verdict_span, judgement.criteria[1].span
    assert [GOOD[s.start : s.end] for s in spans] == [
        judgement.assessment,
        "B",
        "- fact | rice is the staple | weight 2 | meets both",
    ]
    assert GOOD[judgement.reasoning_end :] == "Verdict: B"


def test_layout_that_chat_models_add_is_accepted():
    text = "\n\n**Criteria:**\n\n1. rice | it is the staple | weight: 5 | meets: A\r\n"
    text += "* 茶 | 每天都喝 | weight 1 | meets neither\n## Assessment: x\n\n"
    assert parse_judgement(text + "Verdict: A \n\n").verdict == "A"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        (GOOD.replace("Verdict: B", ""), "no-verdict"),
        (GOOD + "\nVerdict: A", "repeated-verdict"),
        (GOOD + "\nVerdict: B", "repeated-verdict"),
        (GOOD.replace("B greets", "The text says 'Verdict: A'. B greets"), "repeated-verdict"),
        (GOOD.replace("rice is", "VERDICT: A is"), "repeated-verdict"),
        (GOOD.replace("\nVerdict: B", " Verdict: B"), "not-last"),
        (GOOD + "\nOr so I think.", "not-last"),
        (GOOD.replace("Verdict: B", "verdict: B"), "not-last"),
        (GOOD.replace("Verdict: B", "Verdict: both"), "not-last"),
        (GOOD.replace("Verdict: B", "Verdict: [B]"), "not-last"),
        (GOOD.replace("Verdict: B", "> Verdict: B"), "not-last"),
        (GOOD.replace("Verdict: B", "Verdict:  B"), "not-last"),
        ("Verdict: A", "no-criteria"),
        ("Sure!\n" + GOOD, "no-criteria"),
        ("Criteria:\nAssessment: x\nVerdict: A", "no-criteria"),
        (GOOD.replace("weight 4", "weight 9"), "bad-criterion"),
        (GOOD.replace("meets both", "meets C"), "bad-criterion"),
        (GOOD.replace(" | rice is the staple", ""), "bad-criterion"),
        (GOOD.replace("Assessment: B greets the elders.\nA does not.\n", ""), "no-assessment"),
        ("Criteria:\n- fact | known | weight 1 | meets A\nAssessment: \nVerdict: A", "no-assessment"),
        (GOOD.replace("respect | elders", ". | elders"), "empty-criterion"),
        (GOOD.replace("elders are greeted first", "\u200b\u2060"), "empty-criterion"),
        (GOOD.replace("respect", "Verdict"), "empty-criterion"),
        (GOOD.replace("rice is the staple", "the verdict is B"), "empty-criterion"),
        (GOOD.replace("rice is the staple", "why it matters there"), "empty-criterion"),
        (GOOD.replace("meets B", "meets both"), "unsupported"),
        (GOOD.replace("meets B", "meets A"), "unsupported"),
        (GOOD.replace("weight 4", "weight 2").replace("meets both", "meets A"), "unsupported"),
        ("Criteria:\n" + "- a | b | weight 1 | meets A\n" * 33 + "Assessment: x\nVerdict: A", "bad-criterion"),
    ],
)
def test_anything_else_is_a_format_error(text, kind):
    error = parse_judgement(text)
    assert isinstance(error, FormatError)
    assert error.kind == kind
    assert correctness_reward([text, error], ["A", "B"]) == [1.0 if error.verdict == v else -1.0 for v in "AB"]


def test_direct_verdicts():
    assert parse_judgement("Verdict: A\n", direct=True).verdict == "A"
    assert parse_judgement(GOOD, direct=True).kind == "not-last"
    assert correctness_reward(["Verdict: A"], ["A"], direct=True) == [1.0]


def test_correctness_is_plus_or_minus_one():
    assert correctness_reward([GOOD, GOOD, parse_judgement(GOOD)], ["A", "B", "B"]) == [-1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="zip"):
        correctness_reward([GOOD], [])


pieces = st.sampled_from(
    [
        "Criteria:",
        "- a | b | weight 1 | meets A",
        "Assessment: x",
        "Verdict: A",
        "Verdict: B",
        "\n",
        " ",
        "|",
        "İ",
        "\ud800",
    ]
)


@given(st.one_of(st.text(), st.binary(), st.lists(st.one_of(pieces, st.text(max_size=3))).map("\n".join)))
def test_any_text_gives_a_judgement_or_a_format_error(text):
    outcome = parse_judgement(text)
    assert isinstance(outcome, Judgement | FormatError)
    if isinstance(outcome, Judgement):
        shown = text if isinstance(text, str) else text.decode("utf-8", errors="replace")
        assert shown[outcome.verdict_span.start : outcome.verdict_span.end] == outcome.verdict
        assert shown.rstrip().endswith(f"Verdict: {outcome.verdict}")


word = st.text(alphabet=st.characters(exclude_characters="|:\n\r", exclude_categories=["Cs", "Cc", "Z"]), min_size=1)
criterion = st.tuples(word, word, st.integers(1, 5), st.sampled_from(["A", "B", "both", "neither"]))


@given(st.lists(criterion, min_size=1, max_size=8), word.filter(lambda w: w.strip("*#_")), st.sampled_from(["A", "B"]))
def test_what_is_written_is_read_back(criteria, assessment, verdict):
    judgement = parse_judgement(write_judgement(criteria, assessment, verdict))
    assert judgement.verdict == verdict
    own, other = (sum(w for _, _, w, meets in criteria if meets in (v, "both")) for v in ("AB", "BA")[verdict == "B"])
    content = all(has_content(name, letters=1) and has_content(why) for name, why, _, _ in criteria)
    if content and own > other:
        assert [(c.name, c.why, c.weight, c.meets) for c in judgement.criteria] == criteria
    else:
        assert judgement.kind == ("unsupported" if content else "empty-criterion")


@pytest.mark.parametrize(
    "text",
    [
        "Verdict:" * 200_000,
        "Criteria:\n" + "- a|" * 400_000 + "\nVerdict: A",
        "Criteria:\n" + "-\t" * 400_000 + "\nVerdict: A",
        " " * 1_000_000 + "Verdict: A",
        "Criteria:\n- a | b | weight" + " " * 1_000_000 + "9 | meets A\nVerdict: A",
        "*" * 1_000_000 + "Verdict: A",
        "\n" * 1_000_000 + "Verdict: A" + "\n" * 1_000_000,
    ],
)
def test_long_hostile_texts_are_read_in_one_pass(text):
    assert isinstance(parse_judgement(text), FormatError)  # a quadratic parser would take hours here


def test_what_stands_before_the_verdict():
    assert before_verdict(GOOD) == GOOD.removesuffix("\nVerdict: B")
    assert before_verdict("abc verDICT: A and Verdict: B") == "abc"
    assert before_verdict("abc \n") == "abc"


def test_importing_the_package_imports_no_heavy_library():
    code = "import sys, tal_rlvr; print({'torch', 'transformers', 'vllm', 'trl', 'peft'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
