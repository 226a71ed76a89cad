"""``carb data audit``: how far does one get from the answers alone?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.main import FAILED, OK
from carb_cli.options import CultureFile, DataName, Json, Several, add_cultures
from carb_cli.output import Output
from carb_data import BonSet, CarbError, Dataset, cultures, load
from carb_data.audit import Attack, AuditReport, audit

SHOWN_WORST = 3
UNASKED = "…"
"""What a model is shown in the place of the question."""


class DataAudit(Output, AuditReport):
    """Output of ``carb data audit --json``."""

    schema_: Literal["carb.data.audit/1"] = Field(default="carb.data.audit/1", alias="schema")


def audit_(
    data: DataName,
    *,
    check: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    model: Annotated[tuple[str, ...], Several] = (),
    seed: int = 0,
    culture_file: CultureFile = (),
    json: Json = False,
) -> int:
    """Try to find the right answers without the questions: an attack that works shows a defect of the data.

    Each attack sees the answers of a set but not its question and culture, and picks one. Intervals are 95%, corrected
    for the number of attacks and of groups. Families are attacked as wholes, and their main sets by themselves.

    For example:

        carb data audit carb-seed

    Parameters
    ----------
    check
        Exit with 1 when an attack works.
    model
        A scorer that rates the answers without the question, for example implicit:MODEL?ref=none for the likelihood
        under a language model; may be repeated. By default no model is asked.
    seed
        Seed of the folds in which classifiers are trained and tested.
    """
    add_cultures(culture_file)
    found = audit(load(data), more={name: _model(name) for name in model}, seed=seed)
    if json:
        DataAudit.model_validate(found.model_dump()).print()
    else:
        display.say(f"{found.sets:,} sets, {found.mirrors:,} of them mirrors. Fingerprint {found.fingerprint}.")
        show(found)
    return FAILED if check and not found.passed else OK


def show(found: AuditReport) -> None:
    """Print the attacks over the whole, those that work in a domain or culture, and the sets that they solve best."""
    whole = [attack for attack in found.attacks if attack.level in ("all", "main")]
    columns = ["attack", "sets", "accuracy %", "95%", "chance %", "Cohen's d", ""]
    display.table("From the answers alone", columns, [_row(one, one.level) for one in whole], right=columns[2:6])
    parts = [attack for attack in found.working if attack.level in ("domain", "culture")]
    if parts:
        columns[1] = "domain or culture"
        display.table(
            "Attacks that work in a part", columns, [_row(one, one.group or "") for one in parts], columns[2:6]
        )
    if found.worst:
        names = dict.fromkeys(one.attack for one in found.worst)
        rows = [
            (name, ", ".join(one.item_id for one in [w for w in found.worst if w.attack == name][:SHOWN_WORST]))
            for name in names
        ]
        display.table("Sets that they solve most clearly", ["attack", "sets"], rows)
    works = len({attack.attack for attack in found.working})
    display.say("No attack works." if not works else f"{works} attacks work; where they do, repair the data.")


def _row(one: Attack, group: str) -> tuple[str, ...]:
    return (
        one.attack,
        group,
        display.percent(one.accuracy),
        display.interval(one.low, one.high),
        display.percent(one.chance),
        "–" if one.effect is None else f"{one.effect:+.2f}",
        "works" if one.works else "",
    )


def _model(spec: str) -> Callable[[Sequence[BonSet]], list[list[float]]]:
    """The scores of a scorer that sees neither the question nor the culture."""

    def rate(items: Sequence[BonSet]) -> list[list[float]]:
        from carb_scorers import evaluate

        # The sets of a family differ in their question only, so they are one request.
        shown = [(_speakers(item), tuple(one.text for one in item.responses)) for item in items]
        distinct = {key: _blind(item, key[0]) for key, item in zip(shown, items, strict=True)}
        frame = evaluate(Dataset(distinct.values()), [spec]).frame
        scores = {(row["item_id"], row["response_id"]): row["score"] for row in frame.iter_rows(named=True)}
        rated = {key: [scores[item.id, one.id] for one in item.responses] for key, item in distinct.items()}
        failed = sum(score is None for row in rated.values() for score in row)
        if failed:
            raise CarbError(f"{spec} failed on {failed} answers; run it with `carb run` to see why.")
        return [rated[key] for key in shown]

    return rate


def _blind(item: BonSet, culture: str) -> BonSet:
    return item.model_copy(update={"prompt": UNASKED, "culture": culture, "perturbed": ()})


def _speakers(item: BonSet) -> str:
    """A culture that says no more than the answers' language does."""
    base = item.language.partition("-")[0]
    return next((culture.id for culture in cultures if culture.language == base), "english")
