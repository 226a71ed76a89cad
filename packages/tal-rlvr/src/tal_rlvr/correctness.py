"""R_corr: was the verdict right?"""

from __future__ import annotations

from collections.abc import Sequence

from tal_rlvr.judgement import FormatError, Judgement, Verdict, check_label, parse_judgement


def correctness_reward(
    judgements: Sequence[Judgement | FormatError | str], labels: Sequence[Verdict], *, direct: bool = False
) -> list[float]:
    """R_corr of Think-as-Locals: +1 where the verdict is the label, -1 otherwise (Zhang et al. 2025, section 5).

    The verdict of an output without form counts as well (``FormatError.verdict``): form is measured apart.

    Args:
        judgements: parsed outputs, or the outputs' texts.
        labels: the right response of each pair, in presented order.
        direct: whether outputs hold a verdict alone, without criteria; ``parse_judgement`` explains both forms.

    Returns:
        +1.0 or -1.0 for each; an output whose verdict cannot be read counts as wrong.

    Raises:
        ValueError: the two differ in length.
        CarbError: a label is neither ``A`` nor ``B``.
    """
    rewards = []
    for number, (given, label) in enumerate(zip(judgements, labels, strict=True), 1):
        check_label(label, number)
        judgement = parse_judgement(given, direct=direct) if isinstance(given, str) else given
        rewards.append(1.0 if judgement.verdict == label else -1.0)
    return rewards
