"""The rewards of Think-as-Locals as pure functions: R_corr, R_appr, and R = R_corr + lambda
R_appr."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from carb_data import CarbError
from tal_rlvr.judgement import FormatError, Judgement, Verdict, check_label, parse_judgement

CLIP = 1.0
"""Default bound on the absolute value of R_appr, which it comes near and never reaches: R_corr, 2
between right and wrong, decides."""

OTHER: dict[Verdict, Verdict] = {"A": "B", "B": "A"}


def correctness_reward(
    judgements: Sequence[Judgement | FormatError | str],
    labels: Sequence[Verdict],
    *,
    direct: bool = False,
) -> list[float]:
    """R_corr of Think-as-Locals: +1 where the verdict is the label, -1 otherwise (Zhang et al.
    2025, arXiv 2509.21798, section 5).

    The verdict of an output without form counts as well (``FormatError.verdict``): form is measured
    apart.

    Args:
        judgements: parsed outputs, or the outputs' texts.
        labels: the right response of each pair, in presented order.
        direct: whether outputs hold a verdict alone, without criteria; ``parse_judgement`` explains
            both forms.

    Returns:
        (outputs,) +1.0 or -1.0; an output whose verdict cannot be read counts as wrong.

    Raises:
        ValueError: the two differ in length.
        CarbError: a label is neither ``A`` nor ``B``.
    """
    rewards = []
    for number, (given, label) in enumerate(zip(judgements, labels, strict=True), 1):
        check_label(label, number)
        if isinstance(given, str):
            given = parse_judgement(given, direct=direct)
        right = given.verdict == label
        rewards.append(1.0 if right else -1.0)
    return rewards


def format_reward(judgements: Sequence[Judgement | FormatError]) -> list[float]:
    """1 for a well-formed judgement, 0 otherwise. Not in the paper.

    Args:
        judgements: parsed outputs, as ``parse_judgement`` gives them.

    Returns:
        (outputs,) 1.0 or 0.0.
    """
    return [float(isinstance(judgement, Judgement)) for judgement in judgements]


OfVerdicts = tuple[float, float]
"""A number for each of the verdicts A and B."""


class VerdictRow(NamedTuple):
    """Token ids up to where a verdict's letter stands, in two parts. Rows of one prompt share their
    prefix."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


class VerdictLogprobs(Protocol):
    """A source of verdict log-probabilities; see ``tal_rlvr.verdict_logprobs`` for transformers and
    trainers."""

    def __call__(self, rows: Sequence[VerdictRow]) -> list[OfVerdicts]:
        """Natural log-probabilities of the verdicts A and B after each row, over the whole
        vocabulary."""
        ...


class Reading(NamedTuple):
    """One output of the judge, behind its question with the responses in one order."""

    with_criteria: VerdictRow
    """Question, responses, z."""
    without_criteria: VerdictRow
    """Question and responses alone."""


class CriteriaCase(NamedTuple):
    """One output of the judge, ready to be measured; its first two rows are those of a
    ``Reading``."""

    with_criteria: VerdictRow
    without_criteria: VerdictRow
    label: Verdict
    paid: bool = True
    """False where the output's criteria count as none: it earns an R_appr of 0."""
    swapped: Reading | None = None
    """The same output behind the question with the responses in the other order, where the label is
    the other one."""


class Appropriateness(NamedTuple):
    """R_appr, which pays for criteria that help to the right verdict, and the terms that make it.

    All are in nats (natural logarithms). The terms are averaged over the orders that were measured.
    """

    value: float
    """R_appr: the first term minus the second, bounded by the clip."""
    with_criteria: float
    """The label's log-odds, or its log-probability, after the question q, the responses y1 and y2,
    and the criteria z."""
    without_criteria: float
    """The same after q, y1 and y2."""


def criteria_reward(
    cases: Sequence[CriteriaCase],
    provider: VerdictLogprobs,
    *,
    odds: bool = True,
    clip: float | None = CLIP,
) -> list[Appropriateness]:
    """R_appr of Think-as-Locals: how far the criteria of an output help to the right verdict.

    The source is Zhang et al. 2025 (arXiv 2509.21798, section 5). A model reads an output up to its
    verdict, and gives the log-probability of each verdict there (teacher forcing). q is the
    question, y1 and y2 are the responses, z is the criteria, and j is the true verdict.

    The paper's form is ``log pi(j | q, y1, y2, z) - log pi(j | q, y1, y2)`` over the whole
    vocabulary: ``odds=False, clip=None``, and cases without ``swapped``. It pays three things
    beside criteria:

    * *format*: the term without z is low where a verdict is not expected.
    * *evenness*: text can move the reader towards even. A logarithm gains more on one order of the
      responses than it loses on the other.
    * *codes*: a code can stand for a verdict.

    The default takes the log-odds of the true verdict against the other one. It averages them over
    both orders, and subtracts the mean without z from the mean with z. It bends this gain x once,
    to ``x / (1 + abs(x) / clip)``. A confident reader still distinguishes better criteria from
    worse ones; with a sharp clip it would not. Criteria without content about the responses then
    earn 0 in expectation, in any code or language. A hint at the true response gains as much as a
    hint at the other one loses.

    One small study, in which R_appr could hardly differ from R_corr, found no effect on accuracy.
    There is no evidence for or against it at 7B.

    Args:
        cases: the outputs to measure, each with its prompt and its right verdict.
        provider: the provider of log-probabilities; it is called once, with every different z-free
            row followed by the rows with criteria.
        odds: whether to measure log-odds of the two verdicts instead of a log-probability over the
            vocabulary.
        clip: bound on the absolute value, in nats, which the value comes near and never reaches;
            null means no bound.

    Returns:
        (cases,) one each; the value of a case that is not ``paid`` is 0.

    Raises:
        CarbError: a label is neither ``A`` nor ``B``, a log-probability is NaN or infinity, or
            R_appr is no finite number. A probability of exactly 0 (a log-probability of minus
            infinity) on one side alone earns the clip.
        ValueError: the clip is not above 0.
    """
    if clip is not None and not clip > 0:
        raise ValueError(f"clip must be above 0, got {clip}")
    readings = [_readings(case) for case in cases]
    flat = [reading for both in readings for reading, _ in both]
    bare_rows = list(dict.fromkeys(reading.without_criteria for reading in flat))
    values = provider([*bare_rows, *(reading.with_criteria for reading in flat)])
    known = dict(zip(bare_rows, values, strict=False))
    of_criteria = iter(values[len(bare_rows) :])
    rewards = []
    for number, (case, both) in enumerate(zip(cases, readings, strict=True), 1):
        check_label(case.label, number)
        given = []
        bare = []
        for reading, label in both:
            pair = next(of_criteria)
            base = known[reading.without_criteria]
            _check_numbers(pair, base, number)
            given.append(_term(pair, label, odds=odds))
            bare.append(_term(base, label, odds=odds))
        with_criteria = sum(given) / len(given)
        without = sum(bare) / len(bare)
        value = _bounded(with_criteria - without, clip, f"R_appr of case {number}")
        if not case.paid:
            value = 0.0
        rewards.append(Appropriateness(value, with_criteria, without))
    return rewards


def _readings(case: CriteriaCase) -> list[tuple[Reading, Verdict]]:
    shown = Reading(case.with_criteria, case.without_criteria)
    readings = [(shown, case.label)]
    if case.swapped is not None:
        readings.append((case.swapped, OTHER.get(case.label, case.label)))
    return readings


def _check_numbers(
    pair: OfVerdicts,
    base: OfVerdicts,
    number: int,
) -> None:
    if not all(one < math.inf for one in (*pair, *base)):  # NaN is not below it either
        raise CarbError(
            f"R_appr of case {number}: the log-probabilities of A and B are {pair} with the "
            f"criteria and {base} "
            "without. The model or its provider is broken: look for NaN in its weights and logits."
        )


def _term(pair: OfVerdicts, label: Verdict, *, odds: bool) -> float:
    named, other = pair
    if label == "B":
        named, other = other, named
    return named - other if odds else named


def label_logprob(pair: OfVerdicts, label: Verdict) -> float:
    """Natural log-probability of the label over the two verdicts."""
    gain = _term(pair, label, odds=True)
    # log(p / (p + q)) = -log(1 + exp(log q - log p)), stable on both sides
    return min(gain, 0.0) - math.log1p(math.exp(-abs(gain)))


def _bounded(value: float, clip: float | None, what: str) -> float:
    """The value bent to lie within the clip; NaN and, without a clip, infinity are refused."""
    bounded = value
    if clip is not None and math.isinf(value):
        bounded = math.copysign(clip, value)
    elif clip is not None:
        bounded = value / (1 + abs(value) / clip)
    if not math.isfinite(bounded):
        hint = "Give a clip, which bounds it."
        if math.isnan(value):
            hint = "It cannot be a reward."
        raise CarbError(f"{what} is {value}. {hint}")
    return bounded


def total_reward(
    correctness: Sequence[float],
    criteria: Sequence[float | Appropriateness],
    *,
    weight: float = 1.0,
    formats: Sequence[float] | None = None,
    format_weight: float = 0.0,
) -> list[float]:
    """R = R_corr + lambda * R_appr, with an optional reward of form.

    The source is Zhang et al. 2025 (arXiv 2509.21798, section 5), without the reward of form.

    Args:
        correctness: (outputs,) R_corr of each output.
        criteria: (outputs,) R_appr of each output, or its value in nats.
        weight: lambda. The paper's value is not known to us; 1 is ours.
        formats: ``format_reward`` of each output; needed when ``format_weight`` is not 0.
        format_weight: the weight of the format reward; off (0) by default, as in the paper.

    Returns:
        (outputs,) R of each output.

    Raises:
        ValueError: lengths differ.
        CarbError: a reward is NaN or infinite.
    """
    values = [entry.value if isinstance(entry, Appropriateness) else entry for entry in criteria]
    if formats is None or format_weight == 0:
        formats = [0.0] * len(values)
    rewards = []
    terms = zip(correctness, values, formats, strict=True)
    for number, (right, value, form) in enumerate(terms, 1):
        total = right + weight * value + format_weight * form
        rewards.append(_bounded(total, None, f"R of output {number}"))
    return rewards
