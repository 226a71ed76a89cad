"""A draw of sets in which neither the words of the answers nor those of the question tell the right answer."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from carb_data.models import BonSet, Role
from carb_data.ngrams import plain
from carb_data.surface import overlap

__all__ = ["Excess", "balanced", "excess_over_chance"]

Excess = Mapping[str, tuple[float, float]]
"""Set id to the excess of two attacks over chance: 1 - 1/N where an attack is right, else -1/N."""
_PRIOR = 0.5
_SLACK = 1.0
"""How many sets an attack may be above chance in a draw."""
_WORKS = statistics.NormalDist().inv_cdf(0.995)
"""Standard errors above chance from which an attack works on a source: its 99% interval lies above chance."""


def excess_over_chance(items: Sequence[BonSet]) -> dict[str, tuple[float, float]]:
    """Attack sets by what an answer shares with its question, and by words that stand in right answers.

    A word weighs as much as it is oftener in right answers than in wrong ones, in the other source items. That needs
    no library, so that a build is the same on every machine. An attack that does not work on the sets as a whole has
    no excess in any of them.

    Args:
        items: sets of one source and language; words are learned from all of them.
    """
    shared = [_excess(item, overlap(item.prompt_text, tuple(r.text for r in item.responses))) for item in items]
    words = [_excess(item, row) for item, row in zip(items, _word_values(items), strict=True)]
    chances = [1 / len(item.responses) for item in items]
    least = _WORKS * math.sqrt(sum(chance * (1 - chance) for chance in chances))
    pair = [row if sum(row) > least else [0.0] * len(items) for row in (shared, words)]
    return {item.id: (first, second) for item, first, second in zip(items, *pair, strict=True)}


def balanced(units: Sequence[Sequence[BonSet]], excess: Excess, most: int) -> Iterator[tuple[Sequence[BonSet], bool]]:
    """Yield units, each with whether it may be taken: never one that would put an attack above chance.

    A unit that has to wait comes as soon as others have made room for it.

    Args:
        units: what is taken as a whole, in the order wished for.
        excess: what ``excess_over_chance`` found; a set that is not in it counts for nothing.
        most: number of units after which none may be taken any more.
    """
    waiting = [(unit, [excess[item.id] for item in unit if item.id in excess]) for unit in units]
    sums = [(unit, sum(row[0] for row in rows), sum(row[1] for row in rows)) for unit, rows in waiting]
    overlap = words = 0.0
    for _ in range(most):
        fits = (n for n, (_, *own) in enumerate(sums) if _fits(overlap, own[0]) and _fits(words, own[1]))
        place = next(fits, None)
        if place is None:
            break
        unit, more_overlap, more_words = sums.pop(place)
        overlap, words = overlap + more_overlap, words + more_words
        yield unit, True
    yield from ((unit, False) for unit, *_ in sums)


def _fits(so_far: float, more: float) -> bool:
    return more <= 0 or so_far + more <= _SLACK


def _excess(item: BonSet, values: Sequence[float]) -> float:
    best = [r.role is Role.CHOSEN for r, value in zip(item.responses, values, strict=True) if value == max(values)]
    return sum(best) / len(best) - 1 / len(item.responses)


def _word_values(items: Sequence[BonSet]) -> list[list[float]]:
    """For each answer the mean weight of its words; a set's own source item and family teach it nothing."""
    pieces = [[_pieces(response.text) for response in item.responses] for item in items]
    names = [item.family or item.source_item for item in items]
    own: dict[str, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    for item, name, parts in zip(items, names, pieces, strict=True):
        for response, held in zip(item.responses, parts, strict=True):
            own[name][response.role is not Role.CHOSEN].update(held)
    right, wrong = Counter[str](), Counter[str]()
    for first, second in own.values():
        right.update(first)
        wrong.update(second)
    rows = []
    for name, parts in zip(names, pieces, strict=True):
        first, second = own[name]
        weights = {
            piece: math.log((right[piece] - first[piece] + _PRIOR) / (wrong[piece] - second[piece] + _PRIOR))
            for piece in frozenset().union(*parts)
        }
        rows.append([round(math.fsum(weights[piece] for piece in held) / (len(held) or 1), 9) for held in parts])
    return rows


def _pieces(text: str) -> frozenset[str]:
    """Words, and runs of up to three characters, which are all that a script without spaces has."""
    said = plain(text)
    return frozenset(said.split()) | {said[n : n + size] for size in (1, 2, 3) for n in range(len(said) - size + 1)}
