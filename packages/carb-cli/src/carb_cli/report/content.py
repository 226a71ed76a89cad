"""Gather runs into the content of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
from polars import col

from carb_cli.json_output import counts
from carb_cli.report.headline import verdict
from carb_cli.report.report_json import (
    Cells,
    DatasetPart,
    JudgesPart,
    PeoplePart,
    Report,
    ScorerPart,
)
from carb_cli.review.findings import WHOLE, Findings, line_beside
from carb_cli.runs import dataset_of
from carb_cli.selection import chance
from carb_cli.summary import blind
from carb_data import CarbError, Dataset, HomeLine, ScoreTable, cultures, home_line, is_mirror
from carb_metrics import (
    Cell,
    FamilyReport,
    Interval,
    Scored,
    SurfaceFloor,
    bon_accuracy,
    breakdown,
    calibration,
    cross_lingual_consistency,
    failures,
    family_accuracy,
    item_analysis,
    judge_bias,
    judge_vs_human,
    perturbation_sensitivity,
    place_gap,
    rank,
    surface_floor,
)
from carb_metrics.rows import Grouped, ItemAnalysis, JudgedRow, Ranking, RankRow
from carb_metrics.surface import overlap_scores
from carb_scorers import RunRecord, ScorerRecord, read_presentations, told_culture


@dataclass(frozen=True)
class Runs:
    """Several runs on the same data set as one."""

    folders: tuple[Path, ...]
    records: tuple[RunRecord, ...]
    dataset: Dataset
    scores: ScoreTable

    @property
    def scorers(self) -> dict[str, ScorerRecord]:
        """The record of each scorer, by name."""
        return {scorer.spec.name: scorer for record in self.records for scorer in record.scorers}


def merged(several: Sequence[Runs]) -> Runs:
    """Runs on the same sets, with different scorers, as one; the data set is that of the first."""
    return Runs(
        folders=tuple(folder for runs in several for folder in runs.folders),
        records=tuple(record for runs in several for record in runs.records),
        dataset=several[0].dataset,
        scores=ScoreTable.concat([runs.scores for runs in several]),
    )


def read_runs(folders: Sequence[Path]) -> Runs:
    """Read run folders.

    Raises:
        CarbError: a folder is no run, the runs scored different data, or two hold a scorer of the
            same name.
    """
    records = [RunRecord.read(folder) for folder in folders]
    prints = [record.dataset.fingerprint for record in records]
    if len({*prints}) > 1:
        pairs = zip(folders, prints, strict=True)
        listed = ", ".join(f"{folder}: {fingerprint[:12]}" for folder, fingerprint in pairs)
        raise CarbError(
            f"These runs scored different data sets and cannot be put together ({listed})."
        )
    names = [scorer.spec.name for record in records for scorer in record.scorers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CarbError(
            f"Several of these runs hold the scorer {', '.join(twice)}; leave one of them out."
        )
    tables = [ScoreTable.load(folder / "scores.parquet") for folder in folders]
    return Runs(tuple(folders), tuple(records), dataset_of(folders[0]), ScoreTable.concat(tables))


def content(runs: Runs, *, confidence: float = 0.95) -> Report:
    """The results of the runs.

    Raises:
        CarbError: a culture is not registered, or the table is malformed.
    """
    scores = Scored(runs.scores, runs.dataset)
    main = scores
    if len(scores.main):
        main = scores.main
    ranking = rank(_without_controls(runs, scores), confidence=confidence, dataset=runs.dataset)
    baselines = {
        name: f"baseline:{s.spec.model}"
        for name, s in runs.scorers.items()
        if s.spec.kind == "baseline"
    }
    try:
        missed = failures(runs.dataset, scores)
    except CarbError:  # no scorer is better than chance
        missed = None
    home, home_by = _home(runs.dataset)
    parts = _scorers(runs, scores, main, ranking, confidence)
    gaps = place_gap(scores, runs.dataset, confidence)
    floor = surface_floor(main, runs.dataset, confidence=confidence, baselines=baselines)
    report = Report(
        confidence=confidence,
        dataset=_dataset(runs),
        scorers=parts,
        families=_families(runs, scores, confidence),
        shared_words=_shared_words(scores, runs.dataset, confidence),
        place_gap={name: None if parts[name].told else gap for name, gap in gaps.items()},
        ranked_by="place_win" if ranking.by_place else "accuracy",
        pairs=ranking.pairs,
        home_line=home if home.n else None,
        home_by=home_by,
        floor=_above_home(floor, parts, home, home_by),
        failures=missed,
        items=_items(main) if len(runs.scorers) > 1 else None,
        judges=_judges(runs.folders, runs.dataset, main, confidence),
        people=_people(runs, main, confidence),
        runs=runs.records,
    )
    return report.changed(verdict=verdict(report))


def _home(dataset: Dataset) -> tuple[HomeLine, dict[str, dict[str, HomeLine]]]:
    """The home line of the main sets, and of each group of them; groups without one are left
    out."""
    every: list[float] = []
    shares: dict[str, dict[str, list[float]]] = {}
    for item in dataset:
        share = home_line([item]).accuracy
        if share is None:
            continue
        every.append(share)
        root = cultures.root(item.culture)
        traits: dict[str, object] = {
            "culture": root.id,
            "domain": item.domain,
            "culture_domain": f"{root.id}/{item.domain}",
            "kind": item.kind,
            "resource_class": root.resource_class,
            "family": root.family,
            "script": root.script,
        }
        for column, value in traits.items():
            if value is not None:
                by_value = shares.setdefault(column, {})
                by_value.setdefault(str(value), []).append(share)
    groups = {
        column: {value: _mean_line(known) for value, known in by_value.items()}
        for column, by_value in shares.items()
    }
    return _mean_line(every), groups


def _mean_line(shares: Sequence[float]) -> HomeLine:
    mean = None
    if shares:
        mean = fmean(shares)
    return HomeLine(accuracy=mean, n=len(shares))


def _above_home(
    floor: SurfaceFloor | None,
    parts: Mapping[str, ScorerPart],
    home: HomeLine,
    home_by: Mapping[str, Mapping[str, HomeLine]],
) -> SurfaceFloor | None:
    """The floor, with no scorer above it whose accuracy is not clearly above the home line: a rule
    that never reads the question is surface, too."""
    if floor is None:
        return None
    tests = []
    for test in floor.tests:
        part = parts[test.scorer]
        line = home
        cell = part.overall
        for column, value in test.group.items():
            cell = getattr(part, f"by_{column}").get(value, Cell())
            line = home_by.get(column, {}).get(value, HomeLine(accuracy=None, n=0))
        if test.above and not clearly_above(cell, line):
            test = test.changed(above=False)
        tests.append(test)
    return floor.changed(tests=tuple(tests))


def clearly_above(cell: Cell, line: HomeLine) -> bool:
    """Whether the whole interval of an accuracy lies above the home line; true without a line."""
    return line.accuracy is None or (cell.low is not None and cell.low > line.accuracy)


def _without_controls(runs: Runs, scores: Scored) -> Scored:
    """The scores of all but the controls, which were shown facts; of all if there are controls
    alone."""
    known = [name for name, one in runs.scorers.items() if "facts" not in one.spec.parameters]
    if not known:
        return scores
    return scores.where(col.scorer.cast(pl.String).is_in(known))


def _scorers(
    runs: Runs, scores: Scored, main: Scored, ranking: Ranking, confidence: float
) -> dict[str, ScorerPart]:
    """The results of each scorer, the best first; controls last."""
    parts = breakdown(scores, confidence=confidence)
    perturbed = scores.frame["perturbation"].null_count() < len(scores)
    sensitivity = None
    if perturbed:
        sensitivity = perturbation_sensitivity(scores, confidence)
    consistency = cross_lingual_consistency(scores, confidence=confidence)
    kinds = _by_kind(main, [*runs.scorers], confidence)
    ranks = {row.scorer: row.standing for row in ranking.scorers}
    unranked = sorted(runs.scorers.keys() - ranks.keys())
    rows = {}
    for name in (*ranks, *unranked):
        record = runs.scorers[name]
        its_parts = parts
        if len(runs.scorers) > 1:
            its_parts = parts.of(name)
        more: dict[str, Any] = {
            key: part.cells for key, part in its_parts if isinstance(part, Grouped)
        }
        if sensitivity is not None:
            of_kinds = [row for row in sensitivity.kinds if row.scorer == name]
            more["perturbation"] = {row.perturbation: row for row in of_kinds}
            more["causal_to_surface"] = sensitivity.of(name).ratio
        rows[name] = ScorerPart(
            spec=record.spec,
            told=told_culture(record.spec),
            usage=record.usage,
            cost=record.cost,
            label_mass=record.label_mass,
            doubt=record.doubt,
            rank=ranks.get(name, RankRow()),
            overall=its_parts.overall,
            macro=its_parts.by_culture_domain.macro,
            by_kind=kinds.get(name, {}),
            consistency=consistency.of(name),
            **more,
        )
    return rows


def _by_kind(main: Scored, names: Sequence[str], confidence: float) -> dict[str, Cells]:
    """Accuracy of each scorer by kind of fact; empty where no set says its kind."""
    known = main.where(col.kind.is_not_null())
    if not len(known):
        return {}
    cells = bon_accuracy(known, by=("scorer", "kind"), confidence=confidence, mirrors=True)
    return {name: cells.of(name).cells for name in names}


def _families(runs: Runs, scores: Scored, confidence: float) -> FamilyReport | None:
    """The rows of all families and of each domain, and where sets say their kind, those of each
    kind."""
    unable = blind(runs.scorers.values())
    families = family_accuracy(scores, runs.dataset, "domain", confidence, blind=unable)
    if not any(item.kind for item in runs.dataset if item.family):
        return families
    by_kind = family_accuracy(scores, runs.dataset, "kind", confidence, blind=unable)
    if families is None or by_kind is None:
        return None
    of_kinds = tuple(row for row in by_kind.rows if row.group is not None)
    return families.changed(rows=families.rows + of_kinds)


def _shared_words(scores: Scored, dataset: Dataset, confidence: float) -> Interval | None:
    overlap = scores.beside(overlap_scores(dataset))
    families = family_accuracy(overlap, dataset, confidence=confidence)
    if families is None:
        return None
    return families.of("baseline:overlap").place_win


MOST_ITEMS = 40
"""Items that a report names."""


def _items(scores: ScoreTable) -> ItemAnalysis | None:
    """The items to read first, those of the lowest discrimination."""
    items = item_analysis(scores)
    if not items.items:
        return None
    telling = [item for item in items.items if item.discrimination is not None]
    telling.sort(key=lambda item: (item.discrimination or 0.0, item.difficulty, item.item_id))
    return items.changed(items=tuple(telling[:MOST_ITEMS]))


def _judges(
    folders: Sequence[Path], dataset: Dataset, scores: Scored, confidence: float
) -> JudgesPart:
    """Bias and calibration on the main sets; without a journal, as in entries of a leaderboard,
    none of position."""
    parts = [read_presentations(folder) for folder in folders if (folder / "journal").is_dir()]
    shown = None
    if parts:
        shown = pl.concat(parts)
    # Each variety stands under the culture for which it counts, as in ``breakdown``.
    names = scores.frame["culture"].unique().cast(pl.String)
    roots = {name: cultures.root_id(name) for name in names}
    root = col.culture.cast(pl.String).replace(roots)
    frame = scores.frame.with_columns(root)
    rolled_up = Scored(ScoreTable(frame), clusters=scores.clusters)
    if shown is not None:
        sets = frame.select(col.item_id.cast(pl.String))
        shown = shown.join(sets, on="item_id", how="semi")
    if shown is not None and shown.is_empty():
        shown = None
    bias = judge_bias(rolled_up, shown, dataset, confidence, by="culture")
    return JudgesPart(
        bias=bias,
        bias_by_culture=bias.groups,
        calibration=calibration(rolled_up, confidence=confidence),
    )


def _people(runs: Runs, scores: ScoreTable, confidence: float) -> PeoplePart:
    """The human line of a reviewed data set, how far people agree, and how far each scorer agrees
    with them.

    ``carb review apply`` writes it beside the data set, and ``carb run`` keeps it in the run's
    folder. A part of a data set (``--limit``) has the line of the whole. The part lacks retired
    sets, on which people disagreed: its own line would be too high.
    """
    reviews = (line_beside(folder / "dataset.parquet") for folder in runs.folders)
    findings = next(filter(None, reviews), None)
    if findings is None:
        return PeoplePart()
    groups = {name: line for name, line in findings.lines.items() if name != WHOLE}
    of_cultures = [line for name, line in groups.items() if name.endswith("/")]
    return PeoplePart(
        line=findings.lines[WHOLE],
        groups=groups,
        cultures=sum(line.n > 0 for line in of_cultures),
        whole=findings.fingerprint != runs.records[0].dataset.fingerprint,
        scorers=_against_people(findings, scores, confidence),
    )


def _against_people(
    findings: Findings, scores: ScoreTable, confidence: float
) -> tuple[JudgedRow, ...]:
    """The file does not link picks to people, so the picks of a set are numbered; no measure here
    depends on that."""
    known = {*scores.frame["item_id"].cast(pl.String)}
    picks = []
    for one in findings.sets:
        if one.set_id not in known:
            continue
        responses = [option.response for option in one.options for _ in range(option.best)]
        for number, response in enumerate(responses):
            picks.append((one.set_id, f"{one.set_id} {number}", response))
    if not picks:
        return ()
    human = pl.DataFrame(picks, schema=["item_id", "rater", "response_id"], orient="row")
    return judge_vs_human(scores, human, confidence)


def _dataset(runs: Runs) -> DatasetPart:
    first = runs.records[0].dataset
    items = runs.dataset
    return DatasetPart(
        names=first.names,
        fingerprint=first.fingerprint,
        sets=first.sets,
        mirrors=sum(map(is_mirror, items)),
        origins=len(set(items.origins.values())),
        copies=len(items.origins.copies),
        responses=first.responses,
        chance=chance(items),
        cultures=counts(item.culture for item in items),
        domains=counts(item.domain for item in items),
        kinds=counts(item.kind for item in items if item.kind),
        languages=counts(item.language for item in items),
        sources=counts(item.provenance.source for item in items),
        licenses=counts(item.provenance.license for item in items),
        methods=counts(item.provenance.method for item in items),
    )
