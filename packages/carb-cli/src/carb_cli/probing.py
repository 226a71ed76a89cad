"""How a chat model is best asked: a few mirrored families, asked in each way, before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from carb_cli import display
from carb_cli.display import percent
from carb_cli.report.content import content, read_runs
from carb_cli.scoring import score
from carb_cli.selection import without_perturbed
from carb_data import Dataset, load
from carb_data.models import Frozen

DATA = "carb-seed"
FAMILIES = 6
"""Families that are asked, each in another language; each has four places and four answers."""

Mode = Literal["listwise", "pairwise", "likelihood"]
WAYS: dict[Mode, str] = {
    "listwise": "judge:{model}?mode=listwise&orders=rotated",
    "pairwise": "judge:{model}?mode=pairwise&orders=both",
    "likelihood": "implicit:{model}?ref=none",
}
"""Each way of asking. Every candidate stands in every position once, so that the mean takes a preference for a position
out; likelihood shows one answer at a time and has no positions."""


class Asked(Frozen):
    """What one way of asking gave."""

    mode: Mode
    spec: str
    row: float | None
    """Share of places under which the right answer scores highest."""
    place_effect: float | None
    """As in ``family_accuracy``; null where every family had a failure."""
    agreement: float | None
    """Share of pairs of orders in which the same answer is picked; null where there is one order."""


def probe(model: str, out: Path, *, fresh: bool) -> tuple[Asked, ...]:
    """Ask a model in each way, and sort by place effect, the largest first.

    Args:
        model: folder, hub id or GGUF file of a chat model.
        out: folder of the probe's run; a second call goes on from what it holds.
        fresh: whether to discard what it holds.
    """
    sets = probing_families(load(DATA))
    display.note(f"{FAMILIES} families of {DATA} are asked in each way first, to find how the model is best asked.")
    specs = {mode: f"{mode}={way.format(model=model)}" for mode, way in WAYS.items()}
    score([DATA], sets, tuple(specs.values()), out, fresh=fresh)
    found = content(read_runs([out]))
    bias = {row.scorer: row.swap_consistency.estimate for row in found.judges.bias.scorers}
    families = {} if found.families is None else {row.scorer: row for row in found.families.rows if row.group is None}
    asked = [
        Asked(
            mode=mode,
            spec=WAYS[mode].format(model=model),
            row=families[mode].row.estimate if mode in families else None,
            place_effect=families[mode].place_effect.estimate if mode in families else None,
            agreement=bias.get(mode),
        )
        for mode in specs
    ]
    return tuple(sorted(asked, key=lambda one: -float("inf") if one.place_effect is None else one.place_effect)[::-1])


def why(asked: tuple[Asked, ...]) -> str:
    """The way that was taken, and what each gave, in sentences."""
    told = []
    for one in asked:
        agreement = "" if one.agreement is None else f", the same pick in {percent(one.agreement)}% of two orders"
        told.append(f"{one.mode}: place effect {display.number(one.place_effect)}, row {percent(one.row)}%{agreement}")
    best = asked[0].mode
    return (
        f"It is a chat model, and is asked by {best}, where it read the place best in {FAMILIES} families of {DATA} "
        f"({'; '.join(told)}). --mode takes another way."
    )


def probing_families(dataset: Dataset) -> Dataset:
    """The families of a few languages that have the fewest characters, with all their sets."""
    families: dict[str, list[int]] = {}
    for place, item in enumerate(dataset):
        if item.family is not None and item.place != "implied":
            families.setdefault(item.family, []).append(place)
    shortest: dict[str, tuple[int, str]] = {}
    for name, places in families.items():
        sets = [dataset[place] for place in places]
        if len({item.chosen.text for item in sets}) == len(sets[0].responses):
            size = sum(len(item.prompt_text) + sum(len(one.text) for one in item.responses) for item in sets)
            language = sets[0].language
            shortest[language] = min((size, name), shortest.get(language, (size, name)))
    kept = sorted(shortest.values())[:FAMILIES]
    return without_perturbed(Dataset(dataset[place] for _, name in kept for place in families[name]))
