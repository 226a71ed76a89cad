"""The Think-as-Locals output form: criteria, assessment, verdict; and its parser.

A judgement is written so::

    Criteria:
    - name | why it matters there | weight 3 | meets A
    - name | why it matters there | weight 1 | meets both
    Assessment: how the two responses compare
    Verdict: A

The keywords are the same in every language, so that one parser and one verdict token serve all of
them. The parser also takes what models write for them: ``| 5 |`` for ``| weight 5 |``, ``| Both
|``, bold headers, other bullets.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from carb_data import CarbError, Frozen
from carb_scorers.models.marks import without_thinking
from tal_rlvr.judge_prompts import QUOTE, Prompt
from tal_rlvr.masking import has_content

Verdict = Literal["A", "B"]
"""Which of the two responses, in presented order."""
VERDICTS: tuple[Verdict, Verdict] = ("A", "B")
MARKER = "Verdict:"
"""The words before the verdict's letter; one space and the letter follow."""

MAX_CRITERIA = 32

MARK = re.compile(r"verdict[ \t*_]{0,4}[:：]", flags=re.IGNORECASE)
"""The verdict's marker as models write it: in any case, bold, with an ASCII or a full-width
colon."""
_DECORATED = re.compile(
    r"[ \t*_#`-]*(?:(?:final|my)[ \t]+)?verdict[ \t*_`]*[:：][ \t*_`(\[]*"
    r"(?:(?:response|answer|option)[ \t]+)?(?-i:([AB]))[ \t*_`)\].!。]*",
    flags=re.IGNORECASE,
)
_VERDICT_LINE = re.compile(r"Verdict: ([AB])[ \t]*")
_WEIGHT = re.compile(r"(?i:weight)?[ \t:=]*\**([1-5])\**(?:[ \t]*/[ \t]*5)?")
_MEETS = re.compile(
    r"(?i:meets)?[ \t:=]*\**(?i:(?:response|answer)[ \t]+)?([AB]|(?i:both|neither))\**\.?"
)
_BULLET = re.compile(r"[ \t]*(?:[-*•]|[0-9]{1,2}[.)])[ \t]+")
_HEADER_DECORATION = " \t*#_"

Kind = Literal[
    "empty",
    "no-verdict",
    "repeated-verdict",
    "not-last",
    "no-criteria",
    "bad-criterion",
    "empty-criterion",
    "no-assessment",
    "unsupported",
]


class Criterion(Frozen):
    """One thing that a local would judge by."""

    name: str
    why: str
    """Why it matters in that culture."""
    weight: Annotated[int, Field(ge=1, le=5)]
    meets: Literal["A", "B", "both", "neither"]
    """Which response meets it, as the judge sees it."""


class Judgement(Frozen):
    """A well-formed output of the judge. With ``direct`` parsing, criteria and assessment are
    empty."""

    criteria: tuple[Criterion, ...]
    assessment: str
    verdict: Verdict
    reasoning_end: int
    """Where z, the criteria and the assessment, ends: the start of the verdict's line, counted in
    characters from 0."""


class FormatError(Frozen):
    """Why a text is not a judgement. A result, not an exception: ``parse_judgement`` returns it."""

    kind: Kind
    """A short stable word to count by."""
    message: str
    verdict: Verdict | None = None
    """The verdict that the text gives all the same, see ``read_verdict``; null where none is sure
    to be the judge's."""


def check_label(label: object, number: int) -> None:
    """Refuse a label that no verdict can be equal to.

    Args:
        label: the right verdict.
        number: its place among the labels, from 1.

    Raises:
        CarbError: it is neither ``A`` nor ``B``.
    """
    if label not in VERDICTS:
        raise CarbError(f"Label {number} is {label!r}. A label is the right verdict, 'A' or 'B'.")


def parse_judgement(
    text: str, *, direct: bool = False, lenient: bool = True
) -> Judgement | FormatError:
    """Read a judge's text: a model's whole output and nothing else, never a candidate's text.

    A judgement has exactly one verdict: the word ``Verdict:`` occurs once, in any case, and the
    last line has its exact form. Its criteria have content (``has_content``), and their weights
    support the verdict (``support``). Anything else is a ``FormatError``, which may still have a
    verdict: form and correctness are measured apart. A verdict that the model quotes, mentions
    inside a criterion or gives twice never decides.

    Args:
        text: any text.
        direct: the text is a verdict without reasoning (a run with ``direct = true``).
        lenient: whether a ``FormatError`` may have a verdict. Say false where a response holds a
            verdict of its own, since the model may have copied it.

    Returns:
        The judgement, or a ``FormatError``. Nothing is raised whatever the text holds; time is
        linear in its length.
    """
    parsed = _parse(text, direct=direct)
    if isinstance(parsed, Judgement) or not lenient:
        return parsed
    verdict = read_verdict(text)
    if verdict is None:
        return parsed
    return parsed.changed(verdict=verdict)


def read_verdict(text: str) -> Verdict | None:
    """The verdict that a text states once and ends with, plain or decorated (``**Verdict: A**``,
    ``Final verdict: Response A.``); null where it is in any doubt.

    A line above that ends with a colon introduces a quotation. A thought holds no verdict.
    """
    text = without_thinking(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    *before, last = lines or [""]
    match = _DECORATED.fullmatch(last)
    quoted = bool(before) and before[-1].endswith((":", "："))
    if match is None or quoted or marker_count(text) != 1:
        return None
    return _letter(match)


def _letter(match: re.Match[str]) -> Verdict:
    return "A" if match[1] == "A" else "B"


def holds_verdict(prompt: Prompt) -> bool:
    """Whether a question or response in a rendered prompt holds a verdict's marker, which a judge
    might copy."""
    if not isinstance(prompt, str):
        prompt = "\n".join(message["content"] for message in prompt)
    quoted = (line for line in prompt.splitlines() if line.startswith(QUOTE))
    return any(MARK.search(line) for line in quoted)


def support(criteria: Sequence[Criterion]) -> tuple[int, int]:
    """The summed weights of the criteria that response A meets, and of those that B meets; ``both``
    counts for each."""
    return (
        sum(c.weight for c in criteria if c.meets in ("A", "both")),
        sum(c.weight for c in criteria if c.meets in ("B", "both")),
    )


def _parse(text: str, *, direct: bool) -> Judgement | FormatError:
    # lone surrogates become question marks, one for one, so that spans still fit
    text = text.encode("utf-8", errors="replace").decode("utf-8")
    end = len(text.rstrip())
    if end == 0:
        return FormatError(kind="empty", message="there is no text")
    marks = marker_count(text)
    if marks != 1:
        kind: Kind = "repeated-verdict"
        if marks == 0:
            kind = "no-verdict"
        return FormatError(kind=kind, message=f"'{MARKER}' occurs {marks} times instead of once")
    start = text.rfind("\n", 0, end) + 1
    match = _VERDICT_LINE.fullmatch(text, start, end)
    if match is None:
        return FormatError(
            kind="not-last", message=f"the last line is not '{MARKER} A' or '{MARKER} B'"
        )
    verdict = _letter(match)
    if direct:
        if text[:start].strip():
            return FormatError(kind="not-last", message="a direct verdict has no text before it")
        return Judgement(criteria=(), assessment="", verdict=verdict, reasoning_end=start)
    return _reasoned(text, start, verdict)


def _reasoned(text: str, stop: int, verdict: Verdict) -> Judgement | FormatError:
    lines = text[:stop].split("\n")
    headers = [_header(line) for line in lines]
    first = next((n for n, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return FormatError(kind="no-criteria", message="there is a verdict alone")
    if headers[first][0] != "criteria" or headers[first][1].strip(_HEADER_DECORATION):
        return FormatError(
            kind="no-criteria", message="the text does not begin with the line 'Criteria:'"
        )
    behind = range(first + 1, len(lines))
    last = next((n for n in behind if headers[n][0] == "assessment"), None)
    criteria: list[Criterion] = []
    for line in filter(str.strip, lines[first + 1 : last]):
        criterion = _criterion(line)
        if criterion is None or len(criteria) == MAX_CRITERIA:
            message = (
                f"criterion {len(criteria) + 1} is not '- name | why | weight 1-5 | meets A, B, "
                "both or neither'"
            )
            return FormatError(kind="bad-criterion", message=message)
        criteria.append(criterion)
    if last is None:
        return FormatError(
            kind="no-assessment", message="there is no line 'Assessment: ...' before the verdict"
        )
    if not criteria:
        return FormatError(kind="no-criteria", message="no criterion is given")
    assessment = "\n".join([headers[last][1], *lines[last + 1 :]]).strip(
        _HEADER_DECORATION + "\r\n"
    )
    if not assessment:
        return FormatError(kind="no-assessment", message="the assessment is empty")
    judgement = Judgement(
        criteria=tuple(criteria), assessment=assessment, verdict=verdict, reasoning_end=stop
    )
    return _unpaid(criteria, verdict) or judgement


def _unpaid(criteria: Sequence[Criterion], verdict: Verdict) -> FormatError | None:
    """The fault of criteria in the right form: no content, or no support for the verdict."""
    for number, criterion in enumerate(criteria, 1):
        if not (has_content(criterion.name, letters=1) and has_content(criterion.why)):
            return FormatError(
                kind="empty-criterion",
                message=f"criterion {number} names no standard, or no reason",
            )
    named, other = support(criteria)
    if verdict == "B":
        named, other = other, named
    if named > other:
        return None
    return FormatError(
        kind="unsupported",
        message=(
            f"the criteria weigh {named} for the verdict's response and {other} for the other; "
            "it must be more"
        ),
    )


def marker_count(text: str) -> int:
    """How often the verdict marker occurs, in any case."""
    return sum(1 for _ in MARK.finditer(text))


def before_verdict(text: str) -> str:
    """z: the text before its first verdict marker, or all of it; without white space at its end."""
    before, *_ = MARK.split(text, maxsplit=1)
    return before.rstrip()


def write_judgement(
    criteria: Sequence[tuple[str, str, int, str]], assessment: str, verdict: Verdict
) -> str:
    """The inverse of ``parse_judgement``: ``(name, why, weight, meets)`` for each criterion, in the
    output form."""
    lines = [
        f"- {name} | {why} | weight {weight} | meets {meets}"
        for name, why, weight, meets in criteria
    ]
    return "\n".join(["Criteria:", *lines, f"Assessment: {assessment}", f"{MARKER} {verdict}"])


def _header(line: str) -> tuple[str, str]:
    """The lower-case word before the first colon, and the rest behind it."""
    head, colon, rest = line.partition(":")
    if not colon:
        return ("", line)
    return (head.strip(_HEADER_DECORATION).lower(), rest)


def _criterion(line: str) -> Criterion | None:
    bullet = _BULLET.match(line)
    fields = []
    if bullet:
        fields = line[bullet.end() :].split("|")
    if len(fields) != 4:
        return None
    name, why, weight_text, meets_text = (field.strip() for field in fields)
    weight = _WEIGHT.fullmatch(weight_text)
    meets = _MEETS.fullmatch(meets_text)
    if not name or not why or weight is None or meets is None:
        return None
    response = meets[1]
    if response not in VERDICTS:
        response = response.lower()
    values = {"name": name, "why": why, "weight": int(weight[1]), "meets": response}
    return Criterion.model_validate(values)
