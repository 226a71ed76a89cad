"""Benchmark scores of a study: scored here, from a run, or from a table."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from carb_cli.runs import dataset_of as sets_of
from carb_cli.selection import spread
from carb_cli.study.cells import key_of, stamp
from carb_cli.study.config import BenchmarkConfig, ScorerConfig, StudyConfig
from carb_cli.study.result import Measured
from carb_data import CarbError, Dataset, ScoreTable, load
from carb_data.waiting import wait_for
from carb_metrics import bon_accuracy
from carb_scorers import Scorer
from carb_scorers.runs import run as run_scorers

Report = Callable[[str, int, int, str], None]
"""``(what, done, total, detail)``, as ``carb_cli.progress`` shows it."""


def dataset_of(benchmark: BenchmarkConfig) -> Dataset:
    """The sets of a benchmark that the study scores itself, without perturbed texts.

    Raises:
        CarbError: there are none.
    """
    dataset = Dataset(item for name in benchmark.data for item in load(name))
    if benchmark.max_chars is not None:
        most = benchmark.max_chars
        dataset = dataset.filter(lambda s: len(s.prompt_text) + sum(len(r.text) for r in s.responses) <= most)
    if benchmark.limit is not None:
        dataset = spread(dataset, benchmark.limit)
    if not len(dataset):
        raise CarbError(f"Benchmark '{benchmark.name}' has no sets left; loosen limit or max_chars.")
    return Dataset(item.model_copy(update={"perturbed": ()}) for item in dataset)


def benchmark_score(
    config: StudyConfig,
    scorer: ScorerConfig,
    benchmark: BenchmarkConfig,
    dataset: Dataset | None,
    opened: Callable[[], Scorer],
    report: Report,
) -> Measured | None:
    """A scorer's score on a benchmark; null where a table does not list it.

    Args:
        config: the configuration of the study.
        scorer: the scorer to measure.
        benchmark: the benchmark to measure it on.
        dataset: the sets to score; null for a run or a table.
        opened: the scorer, opened when first called.
        report: a function that is told about progress.

    Raises:
        CarbError: the scorer cannot be opened or go on, or the run or table lacks or spoils it.
    """
    if benchmark.file is not None:
        return _from_csv(benchmark.file, scorer.name)
    if benchmark.run is not None:
        table = ScoreTable.load(benchmark.run / "scores.parquet").frame
        wanted = table.filter(table["scorer"].is_in([scorer.spec, scorer.name]))
        if not wanted.height:
            raise CarbError(f"the run {benchmark.run} does not hold '{scorer.spec}'")
        scored = ScoreTable(wanted).with_items(sets_of(benchmark.run))
        return _accuracy(scored, benchmark, config.confidence)
    assert dataset is not None
    key = key_of(scorer=stamp(scorer.spec), seed=config.seed, version=version("carb-scorers"))
    folder = config.out / "runs" / dataset.fingerprint[:16] / f"{scorer.name}-{key[:12]}"
    if not (folder / "run.json").exists():
        what = f"{scorer.name} on {benchmark.name}"
        one = opened()

        async def score() -> None:
            await run_scorers(
                dataset,
                [one],
                folder,
                names=benchmark.data,
                seed=config.seed,
                on_progress=lambda p: report(what, p.done, p.total, f"{p.errors} errors"),
            )

        wait_for(score)
    return _accuracy(ScoreTable.load(folder / "scores.parquet").with_items(dataset), benchmark, config.confidence)


def _accuracy(table: ScoreTable, benchmark: BenchmarkConfig, confidence: float) -> Measured:
    cell = bon_accuracy(table, ties=benchmark.ties, confidence=confidence).overall
    return Measured(value=cell.accuracy, low=cell.low, high=cell.high, n=cell.n, errors=cell.errors or 0)


def _from_csv(path: Path, scorer: str) -> Measured | None:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = {row["scorer"]: row["score"] for row in csv.DictReader(lines)}
        text = rows.get(scorer)
        value = None if text is None or not text.strip() else float(text)
    except OSError as error:
        raise CarbError(f"cannot read {path}: {error.strerror}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise CarbError(f"{path} needs the columns scorer and score, with numbers ({error})") from None
    if value is not None and not math.isfinite(value):
        raise CarbError(f"{path}: the score of '{scorer}' is not a finite number")
    return None if value is None else Measured(value=value)
