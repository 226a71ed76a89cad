"""``carb power``: how many sets a comparison needs."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.options import Json
from carb_cli.output import Output
from carb_metrics import PowerRow, simulate_power


class Power(Output):
    """Output of ``carb power --json``."""

    schema_: Literal["carb.power/1"] = Field(default="carb.power/1", alias="schema")
    rows: tuple[PowerRow, ...]


def power(
    difference: float,
    *,
    discordance: float = 0.25,
    sets: Annotated[tuple[int, ...], Parameter(negative=(), consume_multiple=True)] = (200, 500, 1000, 2000, 5000),
    cultures: int = 1,
    cluster: int = 1,
    alike: float = 0.0,
    comparisons: int = 1,
    alpha: float = 0.05,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Simulate how likely a true difference between two scorers is found, for several numbers of sets.

    For example:

        carb power 0.03 --cultures 10 --cluster 4 --alike 0.3

    Parameters
    ----------
    difference
        The true difference of accuracies, for example 0.03.
    discordance
        Share of sets that exactly one of both scorers wins; `carb compare` prints that of two scorers.
    sets
        Numbers of sets to try; may be repeated.
    cultures
        Number of equally large cultures from which the sets come.
    cluster
        Number of sets of one source item.
    alike
        Share of source items whose sets all turn out alike, from 0 to 1.
    comparisons
        Number of tests that are made together and corrected for.
    alpha
        Two-sided level of the tests.
    seed
        Seed of the simulations.
    """
    found = Power(
        rows=simulate_power(
            difference,
            discordance,
            sets,
            cultures=cultures,
            cluster=cluster,
            alike=alike,
            comparisons=comparisons,
            alpha=alpha,
            seed=seed,
        )
    )
    if json:
        found.print()
        return
    rows = [(f"{r.sets:,}", percent(r.power), percent(r.each_culture)) for r in found.rows]
    columns = ["sets", "found %", "found in one culture %"]
    display.table(f"A difference of {percent(difference)} points", columns, rows, right=columns)
