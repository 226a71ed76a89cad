"""Small score tables for the tests of carb-metrics."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

from carb_data import ScoreTable
from carb_data.table import COLUMNS, OPTIONAL

sys.path.insert(0, str(Path(__file__).parent))  # sets_and_scores, a module of these tests

# How long an example takes depends on the machine, so it decides nothing.
settings.register_profile("carb-metrics", deadline=None)
settings.load_profile("carb-metrics")

try:
    from threadpoolctl import threadpool_limits
except ImportError:
    threadpool_limits = None

MakeTable = Callable[..., ScoreTable]


def make_table(
    sets: Sequence[Sequence[float | None]],
    *,
    scorer: str = "judge",
    cultures: Sequence[str] = ("arabic",),
    domains: Sequence[str] = ("values",),
    topics: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
) -> ScoreTable:
    """A table from the scores of each set, ``chosen`` first; cultures, domains and so on are taken
    in turn."""
    rows = []
    for i, values in enumerate(sets):
        for k, value in enumerate(values):
            row = {
                "scorer": scorer,
                "item_id": f"item-{i}",
                "response_id": f"item-{i}-{k}",
                "role": "rejected" if k else "chosen",
                "culture": cultures[i % len(cultures)],
                "domain": domains[i % len(domains)],
                "language": "en",
                "perturbation": None,
                "original": None,
                "score": value,
            }
            if topics is not None:
                row["topic"] = topics[i % len(topics)]
            if sources is not None:
                row["source_item"] = sources[i % len(sources)]
            rows.append(row)
    schema = {**COLUMNS, **{k: v for k, v in OPTIONAL.items() if rows and k in rows[0]}}
    return ScoreTable(pl.DataFrame(rows, schema=schema))


@pytest.fixture(name="make_table", scope="session")
def _make_table() -> MakeTable:
    return make_table


Cell = Callable[[str, str, str, float | str], None]


@pytest.fixture(scope="session")
def cell() -> Iterator[Cell]:
    """Takes one number of a simulation: title of the table, row, column, value.

    At the end the tables are printed, and written to the file that CARB_COVERAGE names, as the
    method page has them.
    """
    tables: dict[str, dict[str, dict[str, str]]] = {}

    def keep(title: str, row: str, column: str, value: float | str) -> None:
        tables.setdefault(title, {}).setdefault(row, {})[column] = (
            value if isinstance(value, str) else f"{value:.3f}"
        )

    yield keep
    parts = []
    for title, rows in tables.items():
        columns = list(next(iter(rows.values())))
        lines = [
            ["", *columns],
            ["---"] * (len(columns) + 1),
            *([row, *cells.values()] for row, cells in rows.items()),
        ]
        heading = textwrap.fill(title, 100, break_on_hyphens=False)
        parts.append(f"{heading}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    text = "\n".join(parts)
    sys.stdout.write(f"\n{text}")
    if "CARB_COVERAGE" in os.environ:
        Path(os.environ["CARB_COVERAGE"]).write_text(text, encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def _one_thread_for_small_matrices():
    """Threads only get in each other's way here: simulations multiply thousands of small
    matrices."""
    limits = threadpool_limits(1) if threadpool_limits else contextlib.nullcontext()
    with limits:
        yield
