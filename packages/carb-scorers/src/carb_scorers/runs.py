"""A run: scorers over a data set into a folder that says everything needed to repeat it, and that resumes."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from carb_data import CarbError, Dataset, ScoreTable
from carb_scorers.blind import Blinded, blind, unblind
from carb_scorers.contract import Scorer, ScorerSpec, Usage
from carb_scorers.evaluation import WINDOW, OnProgress, Progress, score_window
from carb_scorers.journal import Journal, JournalHead, journal_path
from carb_scorers.specs import open_scorer

_RECORDED = ("carb-data", "carb-scorers", "carb-metrics", "tal-rlvr", "carb-cli", "torch", "transformers", "vllm")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatasetRecord(_Frozen):
    """Which data were scored."""

    names: tuple[str, ...]
    fingerprint: str
    sets: int
    responses: int


class ScorerRecord(_Frozen):
    """Which scorer scored them, and how it went."""

    spec: ScorerSpec
    items: int
    errors: int
    usage: Usage


class Machine(_Frozen):
    """The kind of machine; nothing that names it."""

    system: str
    processor: str
    cores: int
    gpus: tuple[str, ...] = ()


class RunRecord(_Frozen):
    """``run.json``: everything needed to repeat a run."""

    format: Literal[1] = 1
    created: datetime
    command: tuple[str, ...]
    dataset: DatasetRecord
    scorers: tuple[ScorerRecord, ...]
    seed: int
    window: int
    python: str
    versions: dict[str, str]
    machine: Machine

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """Read ``run.json`` of a run folder.

        Raises:
            CarbError: the folder holds no finished run.
        """
        try:
            return cls.model_validate_json((folder / "run.json").read_bytes())
        except OSError:
            raise CarbError(f"{folder} holds no finished run (no run.json). Make one with `carb run --out`.") from None
        except ValueError as error:
            raise CarbError(f"{folder / 'run.json'} is not a run record: {error}") from None


async def run(
    dataset: Dataset,
    scorers: Sequence[Scorer | str],
    out: Path,
    *,
    names: Sequence[str] = (),
    seed: int = 0,
    window: int = WINDOW,
    fresh: bool = False,
    command: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> RunRecord:
    """Score a data set into a folder; the same call goes on after any interruption.

    Writes ``run.json``, ``scores.parquet`` (a ``ScoreTable``), ``errors.jsonl``, ``dataset.parquet`` (what was
    scored) and ``journal/``. A scorer whose results are all in the journal is not asked again; errors are results
    too and are kept until ``fresh``.

    Raises:
        CarbError: a spec is wrong, a model is missing, or the folder holds results of something else.
    """
    _prepare(out, fresh)
    tables: list[ScoreTable] = []
    records: list[ScorerRecord] = []
    error_lines: list[str] = []
    seen: set[str] = set()
    for given in scorers:
        scorer = open_scorer(given) if isinstance(given, str) else given
        try:
            if scorer.spec.name in seen:
                raise CarbError(f"The scorer '{scorer.spec.name}' is given twice; name each once.")
            seen.add(scorer.spec.name)
            head = JournalHead(
                fingerprint=dataset.fingerprint, seed=seed, spec=scorer.spec, version=version("carb-scorers")
            )
            with Journal(journal_path(out / "journal", scorer.spec.name), head) as journal:
                blinded = [b for item in dataset for b in blind(item, seed=seed, comparative=scorer.spec.comparative)]
                await _score_missing(scorer, blinded, journal, window, on_progress)
                results = [journal.results[b.request.item_id] for b in blinded]
        finally:
            if isinstance(given, str):
                await scorer.aclose()
        tables.append(unblind(dataset, scorer.spec.name, zip(blinded, results, strict=True)))
        failures = [result for result in results if result.error is not None]
        records.append(
            ScorerRecord(
                spec=scorer.spec,
                items=len(results),
                errors=len(failures),
                usage=sum((r.usage for r in results if r.usage is not None), Usage()),
            )
        )
        for result in failures:
            assert result.error is not None
            error_lines.append(_ErrorRow(scorer=scorer.spec.name, item_id=result.item_id, kind=result.error.kind,
                                         message=result.error.message).model_dump_json())  # fmt: skip
    record = RunRecord(
        created=datetime.now(UTC),
        command=tuple(command),
        dataset=DatasetRecord(
            names=tuple(names),
            fingerprint=dataset.fingerprint,
            sets=len(dataset),
            responses=sum(len(item.responses) + len(item.perturbed) for item in dataset),
        ),
        scorers=tuple(records),
        seed=seed,
        window=window,
        python=platform.python_version(),
        versions=_versions(),
        machine=_machine(),
    )
    dataset.save(out / "dataset.parquet")
    ScoreTable.concat(tables).save(out / "scores.parquet")
    (out / "errors.jsonl").write_text("".join(f"{line}\n" for line in error_lines), encoding="utf-8")
    (out / "run.json").write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return record


def _prepare(out: Path, fresh: bool) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if fresh:
            shutil.rmtree(out / "journal", ignore_errors=True)
            (out / "run.json").unlink(missing_ok=True)
    except OSError as error:
        raise CarbError(f"Cannot write into {out}: {error.strerror}.") from None


class _ErrorRow(_Frozen):
    scorer: str
    item_id: str
    kind: str
    message: str


async def _score_missing(
    scorer: Scorer, blinded: Sequence[Blinded], journal: Journal, window: int, on_progress: OnProgress | None
) -> None:
    """Score what the journal lacks, in windows that end with the results on the disk."""
    missing = [b.request for b in blinded if b.request.item_id not in journal.results]
    known = [journal.results[b.request.item_id] for b in blinded if b.request.item_id in journal.results]
    done = len(known)
    errors = sum(result.error is not None for result in known)
    tokens = 0
    if on_progress is not None:
        on_progress(Progress(scorer.spec.name, done, len(blinded), errors, tokens))
    for start in range(0, len(missing), window):
        results = await score_window(scorer, missing[start : start + window])
        journal.append(results)
        done += len(results)
        errors += sum(result.error is not None for result in results)
        tokens += sum(r.usage.input_tokens + r.usage.output_tokens for r in results if r.usage is not None)
        if on_progress is not None:
            on_progress(Progress(scorer.spec.name, done, len(blinded), errors, tokens))


def _versions() -> dict[str, str]:
    found = {}
    for name in _RECORDED:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _machine() -> Machine:
    torch = sys.modules.get("torch")
    gpus: tuple[str, ...] = ()
    if torch is not None and torch.cuda.is_available():
        gpus = tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return Machine(system=platform.system(), processor=platform.machine(), cores=os.cpu_count() or 1, gpus=gpus)
