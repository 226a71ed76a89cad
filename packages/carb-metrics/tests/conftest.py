"""Small score tables for the tests of carb-metrics."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence

import polars as pl
import pytest
from hypothesis import settings

from carb_data import ScoreTable
from carb_data.table import COLUMNS, OPTIONAL

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
    """A table from the scores of each set, ``chosen`` first; cultures, domains and so on are taken in turn."""
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


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a line of a simulation's table past pytest's capture."""

    def line(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {text}")

    return line


@pytest.fixture(scope="session", autouse=True)
def _one_thread_for_small_matrices():
    """Threads only get in each other's way here: simulations multiply thousands of small matrices."""
    limits = threadpool_limits(1) if threadpool_limits else contextlib.nullcontext()
    with limits:
        yield
