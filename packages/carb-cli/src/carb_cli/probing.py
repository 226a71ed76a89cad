"""The best prompt form for a chat model: a few mirrored families in each form, before a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from carb_cli.display import note, percent
from carb_cli.family_table import families_of, is_complete
from carb_cli.planning import RunPlan, plan_run
from carb_cli.report.content import content, read_runs
from carb_cli.scoring import RunOptions, score
from carb_data import BonSet, Dataset, Frozen, load

DATA = "carb-seed"
FAMILIES = 6
"""Families that are asked, each in another language; each has four places and four answers."""

Mode = Literal["listwise", "pairwise", "likelihood"]
WAYS: dict[Mode, str] = {
    "listwise": "judge:{model}?mode=listwise&orders=rotated",
    "pairwise": "judge:{model}?mode=pairwise&orders=both",
    "likelihood": "implicit:{model}?ref=none",
}
"""Each way of asking. Every candidate stands in every position once: the mean is free of a
preference for a position. Likelihood shows one answer at a time and has no positions."""


class Asked(Frozen):
    """The result of one way of asking."""

    mode: Mode
    spec: str
    place_win: float | None
    """As in ``family_accuracy``, failures lost; null where every comparison failed."""


def probe_plan(model: str) -> RunPlan:
    """The calls and tokens of a model's probe."""
    return plan_run([DATA], probing_families(load(DATA)), _scorers(model))


def _scorers(model: str) -> list[str]:
    """The specs that ask a model in each way, named by it."""
    return [f"{mode}={way.format(model=model)}" for mode, way in WAYS.items()]


def probe(model: str, out: Path, *, fresh: bool) -> tuple[Asked, ...]:
    """Ask a model in each way, and sort by place win rate, the largest first.

    Args:
        model: folder, hub id or GGUF file of a chat model.
        out: folder of the probe's run; a second call continues it.
        fresh: whether to discard its content.
    """
    sets = probing_families(load(DATA))
    note(
        f"First, {FAMILIES} families of {DATA} show which prompt format suits the model. "
        f"{probe_plan(model).sentence()}"
    )
    score([DATA], sets, _scorers(model), out, RunOptions(fresh=fresh))
    report = content(read_runs([out]))
    assert report.families is not None
    asked = []
    for mode, way in WAYS.items():
        one = Asked(
            mode=mode,
            spec=way.format(model=model),
            place_win=report.families.of(mode).surest.estimate,
        )
        asked.append(one)
    asked.sort(key=lambda one: -(one.place_win or 0.0))
    return tuple(asked)


def why(asked: tuple[Asked, ...]) -> str:
    """The chosen way, and the result of each, in sentences."""
    told = [f"{one.mode}: place win rate {percent(one.place_win)}%" for one in asked]
    best = asked[0].mode
    return (
        f"It is a chat model. Its prompt format is {best}, which read the place best in {FAMILIES} "
        f"families of {DATA} ({'; '.join(told)}). --mode chooses another one."
    )


def probing_families(dataset: Dataset) -> Dataset:
    """The families of a few languages that have the fewest characters, with all their sets."""
    families = families_of(dataset).values()
    named = [sets for sets in families if sets[0].place != "implied"]
    shortest: dict[str, list[BonSet]] = {}
    for sets in sorted(named, key=_characters):
        if is_complete(sets):
            shortest.setdefault(sets[0].language, sets)
    chosen = list(shortest.values())[:FAMILIES]
    return Dataset(item for sets in chosen for item in sets).without_perturbed()


def _characters(sets: Sequence[BonSet]) -> int:
    count = 0
    for item in sets:
        count += len(item.prompt_text)
        count += sum(map(len, item.texts))
    return count
