"""``carb data``: list, info, validate, build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.commands.audit import show
from carb_cli.main import FAILED, OK
from carb_cli.options import CultureFile, DataName, Json, Quiet, add_cultures
from carb_cli.output import Output, OutputPart, counts, print_json
from carb_cli.progress import Report, progress
from carb_data import CarbError, DataError, Dataset, Domain, MissingExtraError, cultures, load
from carb_data.audit import audit
from carb_data.card import card as data_card
from carb_data.checks.report import CheckReport, Finding
from carb_data.dataset import SEED, SEED_1
from carb_data.describe import croissant as describe
from carb_data.sources import build as build_source
from carb_data.sources import sources
from carb_data.sources.base import BuildReport
from carb_data.sources.fetching import ADDRESS, Fetched
from carb_data.sources.fetching import fetch as fetch_source
from carb_data.sources.published import published, published_names

SHOWN_FINDINGS = 30


class ListedDataset(OutputPart):
    """A data set that is at hand."""

    name: str
    sets: int
    fingerprint: str


class ListedSource(OutputPart):
    """A source that `carb data build` reads."""

    name: str
    description: str
    license: str


class DataList(Output):
    """Output of ``carb data list --json``."""

    schema_: Literal["carb.data.list/1"] = Field(default="carb.data.list/1", alias="schema")
    datasets: tuple[ListedDataset, ...]
    sources: tuple[ListedSource, ...]


class DataInfo(Output):
    """Output of ``carb data info --json``. Each mapping counts sets by its key."""

    schema_: Literal["carb.data.info/1"] = Field(default="carb.data.info/1", alias="schema")
    name: str
    sets: int
    fingerprint: str
    perturbed: int
    """Sets that have perturbed responses."""
    cultures: dict[str, int]
    domains: dict[str, int]
    languages: dict[str, int]
    licenses: dict[str, int]
    methods: dict[str, int]
    sources: dict[str, int]


class Defect(OutputPart):
    """One defect of a data file."""

    file: str
    line: int
    field: str
    reason: str


class DataValidity(Output):
    """Output of ``carb data validate --json``."""

    schema_: Literal["carb.data.validate/1"] = Field(default="carb.data.validate/1", alias="schema")
    valid: bool
    sets: int | None = None
    """Null when the file has defects."""
    fingerprint: str | None = None
    problems: tuple[Defect, ...] = ()
    """Lines that are no valid sets."""
    checks: CheckReport | None = None
    """What further checks found; null where they were not made."""


class DataFetched(Output):
    """Output of ``carb data fetch --json``."""

    schema_: Literal["carb.data.fetch/1"] = Field(default="carb.data.fetch/1", alias="schema")
    fetched: tuple[Fetched, ...]


class DataBuilt(Output, BuildReport):
    """Output of ``carb data build --json``."""

    schema_: Literal["carb.data.build/1"] = Field(default="carb.data.build/1", alias="schema")


def list_(*, json: Json = False) -> None:
    """List the data sets and sources that can be used here.

    For example:

        carb data list
    """
    seeds = {name: load(name) for name in (SEED, SEED_1)}
    found = DataList(
        datasets=tuple(
            ListedDataset(name=name, sets=len(seed), fingerprint=seed.fingerprint) for name, seed in seeds.items()
        ),
        sources=tuple(
            ListedSource(name=name, description=sources[name].description, license=sources[name].license)
            for name in sources
        ),
    )
    if json:
        found.print()
        return
    rows = [(d.name, d.sets, d.fingerprint[:16]) for d in found.datasets]
    display.table("Data sets", ["name", "sets", "fingerprint"], rows, right=["sets"])
    display.table("Sources", ["name", "what it is"], [(s.name, s.description) for s in found.sources])
    display.say("Next: carb data info carb-seed, or carb data build NAME --out FILE.jsonl")


def info(
    data: DataName,
    *,
    croissant: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Describe a data set: size, cultures, domains, languages, licences, fingerprint.

    For example:

        carb data info carb-seed

    Parameters
    ----------
    croissant
        Print Croissant metadata (JSON-LD, for data set catalogues) and nothing else.
    """
    add_cultures(culture_file)
    dataset = load(data)
    if croissant:
        path = Path(data)
        print_json(describe(dataset, path.stem if path.is_file() else data, path if path.is_file() else None))
        return
    found = DataInfo(
        name=data,
        sets=len(dataset),
        fingerprint=dataset.fingerprint,
        perturbed=sum(bool(item.perturbed) for item in dataset),
        cultures=counts(item.culture for item in dataset),
        domains=counts(str(item.domain) for item in dataset),
        languages=counts(item.language for item in dataset),
        licenses=counts(item.provenance.license for item in dataset),
        methods=counts(item.provenance.method for item in dataset),
        sources=counts(item.provenance.source for item in dataset),
    )
    if json:
        found.print()
        return
    content = found.model_dump(exclude={"schema_", "name"})
    shown = {k: ", ".join(f"{a} {b}" for a, b in v.items()) if isinstance(v, dict) else v for k, v in content.items()}
    display.pairs(data, shown)


def validate(
    data: DataName,
    *,
    form_only: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    culture_file: CultureFile = (),
    json: Json = False,
) -> int:
    """Check a data set; every defect is reported with file, line and field.

    A data set whose form is valid is checked further: copies and near-copies, texts in another language than
    declared, perturbations that are not what they say, mirrored families without the set of one of their answers,
    attacks from the answers alone (see audit), balance, licences.
    Exits with 1 when there are errors, or when an attack on the whole data set has an interval that lies ten points or
    more above chance.

    For example:

        carb data validate my-sets.jsonl

    Parameters
    ----------
    form_only
        Check the form alone.
    """
    add_cultures(culture_file)
    try:
        dataset = load(data)
    except DataError as error:
        if json:
            problems = tuple(Defect(file=p.file, line=p.line, field=p.field, reason=p.reason) for p in error.problems)
            DataValidity(valid=False, problems=problems).print()
        else:
            display.say(str(error))
        return FAILED
    if not len(dataset):
        raise CarbError(f"{data} holds no sets.")
    found = None if form_only else _checked(dataset)
    valid = found is None or found.passed
    if json:
        DataValidity(valid=valid, sets=len(dataset), fingerprint=dataset.fingerprint, checks=found).print()
    else:
        display.say(f"{len(dataset)} sets, all valid in form. Fingerprint {dataset.fingerprint}.")
        if found is not None:
            _show_checks(found)
    return OK if valid else FAILED


def _checked(dataset: Dataset) -> CheckReport | None:
    """The further checks; none where their extra is not installed, which is said."""
    from carb_data.checks import check

    try:
        return check(dataset)
    except MissingExtraError as error:
        display.note(f"Only the form was checked. {error}")
        return None


def _show_checks(found: CheckReport) -> None:
    errors = [finding for finding in found.findings if finding.severity == "error"]
    if errors:
        shown = [(f.check, f.item_id, f.field, f.message) for f in errors[:SHOWN_FINDINGS]]
        display.table(f"{len(errors)} errors", ["check", "set", "field", "what"], shown)
        if len(errors) > SHOWN_FINDINGS:
            display.say(f"... and {len(errors) - SHOWN_FINDINGS:,} more; --json lists them all.")
    warned: dict[str, list[Finding]] = {}
    for finding in found.findings:
        if finding.severity == "warning":
            warned.setdefault(finding.check, []).append(finding)
    if warned:
        rows = [
            (name, len(some), f"{some[0].item_id} {some[0].field}: {some[0].message}") for name, some in warned.items()
        ]
        display.table("Warnings (--json lists them all)", ["check", "n", "the first"], rows, right=["n"])
    show(found.audit)
    leaks = ", ".join(dict.fromkeys(leak.attack for leak in found.leaks))
    display.say(f"{len(errors)} errors, {found.warnings} warnings." + (f" Given away by: {leaks}." if leaks else ""))


def fetch(
    *names: str,
    accept: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    mirror: str = ADDRESS,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch the published files of open sources, pinned and checked, so that `carb data build` finds them.

    The files are kept in the cache folder: CARB_CACHE, by default ~/.cache/carb. What is there with the right sha256
    is not fetched again, and an interrupted fetch goes on where it stopped. Without names, the sources that can be
    fetched are listed with their licences.

    For example:

        carb data fetch blend

    Parameters
    ----------
    names
        Names of sources; all stands for every source with a licence.
    accept
        Fetch files also where their authors state no licence.
    mirror
        Address to use in place of GitHub's, before /owner/name/commit/path.
    """
    open_ = {name: published(name) for name in published_names()}
    if not names:
        rows = [(n, p.license, sum(f.bytes or 0 for f in p.files) // 1024, p.repository) for n, p in open_.items()]
        if json:
            DataFetched(fetched=()).print()
            return
        display.table("Open sources", ["name", "licence", "KiB", "repository"], rows, right=["KiB"])
        display.say("Next: carb data fetch NAME")
        return
    wanted = [n for n, p in open_.items() if accept or not p.must_be_accepted] if names == ("all",) else names
    found = []
    for name in wanted:
        if not json:
            display.note(f"{name}: licence {published(name).license}, {published(name).repository}")
        with progress(quiet) as report:
            told = _counted(report, f"fetch {name}", "files")
            found.append(fetch_source(name, accept=accept, mirror=mirror, progress=told))
    if json:
        DataFetched(fetched=tuple(found)).print()
        return
    for one in found:
        display.say(f"{one.source}: {one.files} files ({one.new} new) in {one.folder}. Licence: {one.license}.")
    display.say(f"Next: carb data build {found[0].source} --out {found[0].source}.jsonl")


def _counted(report: Report, task: str, unit: str) -> Callable[[int, int], None]:
    """Progress of one task in whole units, for a function that knows neither its name nor its unit."""
    return lambda done, total: report(task, done, total, unit)


def build(
    name: str,
    *,
    source: Path | None = None,
    out: Path,
    seed: int = 0,
    skips: Path | None = None,
    card: Path | None = None,
    option: Annotated[tuple[str, ...], Parameter(name=["--option", "-o"], negative=())] = (),
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build a data set from a public source; says what was built, and what was skipped and why.

    For example:

        carb data build blend --out blend.jsonl

    Parameters
    ----------
    name
        The source; `carb data list` shows them. Or a .toml file that declares one.
    source
        Folder or file that holds the source's data. By default, what `carb data fetch` got, or a folder of the
        source's name in CARB_DATA_DIR.
    out
        The .jsonl or .parquet file to write.
    seed
        Seed of all random choices.
    skips
        Write every skipped item with its reason to this .jsonl file.
    card
        Write a data card to this .md file: sets by culture, domain, source, licence and tier, and what an audit finds.
    option
        An option of the source, as name=value; may be repeated.
    """
    add_cultures(culture_file)
    options: dict[str, Any] = _options(option)
    with progress(quiet) as report:
        result = build_source(
            name,
            source,
            out,
            seed=seed,
            skips=skips,
            progress=lambda built, skipped: report(f"build {name}", built, 0, f"built, {skipped} skipped"),
            **options,
        )
    if card is not None:
        built = load(out)
        card.write_text(data_card(built, out.stem, audit(built)), encoding="utf-8")
    if json:
        DataBuilt.model_validate(result.model_dump()).print()
        return
    columns = [*map(str, Domain), "all"]
    display.table(f"Built {result.built} sets in {out}", ["culture", *columns], _by_culture(result), columns)
    display.table(f"Skipped {result.skipped}", ["reason", "n"], list(result.reasons.items()), ["n"])


def _by_culture(built: BuildReport) -> list[list[object]]:
    """A row per culture, its varieties with it; places that belong to none of the listed cultures share the last."""
    listed = {culture.id for culture in cultures}
    found: dict[str, Counter[str]] = {}
    for count in built.counts:
        root = cultures.root(count.culture).id if count.culture in cultures else count.culture
        found.setdefault(root if root in listed else "elsewhere", Counter())[count.domain] += count.rows
    return [
        [name, *(found[name][domain] for domain in Domain), found[name].total()]
        for name in sorted(found, key=lambda name: (name == "elsewhere", name))
    ]


def _options(given: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise CarbError(f"--option {text}: write name=value.")
        options[name.replace("-", "_")] = value
    return options
