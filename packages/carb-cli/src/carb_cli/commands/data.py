"""``carb data``: list, info, validate, build, split."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from carb_cli import display
from carb_cli.main import FAILED
from carb_cli.options import CultureFile, Json, Quiet, add_cultures
from carb_data import CarbError, DataError, Dataset, load
from carb_data.dataset import SEED
from carb_data.sources import build as build_source
from carb_data.sources import sources


def list_(*, json: Json = False) -> None:
    """List the data sets and sources at hand.

    Example: carb data list
    """
    seed = load(SEED)
    datasets = [{"name": SEED, "sets": len(seed), "fingerprint": seed.fingerprint}]
    adapters = [{"name": name, "description": sources[name].description} for name in sources]
    if json:
        display.print_json({"datasets": datasets, "sources": adapters})
        return
    display.table("Data sets", ["name", "sets", "fingerprint"], [list(d.values()) for d in datasets], right=["sets"])
    display.table("Sources for `carb data build`", ["name", "what it is"], [list(a.values()) for a in adapters])


def info(data: str, *, culture_file: CultureFile = (), json: Json = False) -> None:
    """Describe a data set: size, cultures, domains, languages, licences, fingerprint.

    Example: carb data info carb-seed

    Parameters
    ----------
    data
        carb-seed, a path, or hf://owner/name.
    """
    add_cultures(culture_file)
    dataset = load(data)
    content: dict[str, Any] = {
        "name": data,
        "sets": len(dataset),
        "fingerprint": dataset.fingerprint,
        "perturbed": sum(bool(item.perturbed) for item in dataset),
        "cultures": _counts(item.culture for item in dataset),
        "domains": _counts(str(item.domain) for item in dataset),
        "languages": _counts(item.language for item in dataset),
        "licenses": _counts(item.provenance.license for item in dataset),
        "methods": _counts(item.provenance.method for item in dataset),
        "sources": _counts(item.provenance.source for item in dataset),
    }
    if json:
        display.print_json(content)
        return
    shown = {k: ", ".join(f"{a} {b}" for a, b in v.items()) if isinstance(v, dict) else v for k, v in content.items()}
    display.pairs(data, shown)


def _counts(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def validate(data: str, *, culture_file: CultureFile = (), json: Json = False) -> int:
    """Check a data set; every defect is reported with file, line and field.

    Exits with 1 when there are defects.

    Example: carb data validate carb-seed

    Parameters
    ----------
    data
        carb-seed, a path, or hf://owner/name.
    """
    add_cultures(culture_file)
    try:
        dataset = load(data)
    except DataError as error:
        if json:
            problems = [{"file": p.file, "line": p.line, "field": p.field, "reason": p.reason} for p in error.problems]
            display.print_json({"valid": False, "problems": problems})
        else:
            for problem in error.problems:
                display.console.print(str(problem), markup=False, soft_wrap=True)
            display.notes.print(f"{len(error.problems)} problems.")
        return FAILED
    if json:
        display.print_json({"valid": True, "sets": len(dataset), "fingerprint": dataset.fingerprint, "problems": []})
    else:
        display.console.print(f"{len(dataset)} sets, all valid. Fingerprint {dataset.fingerprint}.")
    return 0


def build(
    name: str,
    *,
    source: Path,
    out: Path,
    seed: int = 0,
    skips: Path | None = None,
    option: Annotated[tuple[str, ...], Parameter(name=["--option", "-o"], negative=())] = (),
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build a data set from a public source; says what was built, and what was skipped and why.

    Example: carb data build blend --source ../shared/data/blend --out blend.jsonl

    Parameters
    ----------
    name
        The source; `carb data list` shows them.
    source
        Folder or file that holds the source's data.
    out
        The .jsonl or .parquet file to write.
    seed
        Drives every random choice.
    skips
        Write every skipped item with its reason to this .jsonl file.
    option
        An option of the source, as name=value; may be repeated.
    """
    add_cultures(culture_file)
    options: dict[str, Any] = _options(option)
    with display.progress(quiet) as report:
        result = build_source(
            name,
            source,
            out,
            seed=seed,
            skips=skips,
            progress=lambda built, skipped: report(f"build {name}", built, 0, f"built, {skipped} skipped"),
            **options,
        )
    if json:
        display.print_json(result.model_dump(mode="json"))
        return
    rows = [(c.culture, c.domain, c.language, c.rows) for c in result.counts]
    display.table(f"Built {result.built} {result.yields} in {out}", ["culture", "domain", "language", "n"], rows, ["n"])
    display.table(f"Skipped {result.skipped}", ["reason", "n"], list(result.reasons.items()), ["n"])


def _options(given: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise CarbError(f"--option {text}: write name=value.")
        options[name.replace("-", "_")] = value
    return options


def split(
    data: str,
    *,
    out: Path,
    train: float = 0.8,
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Divide a data set by source item, so that no item or translation of one crosses a border.

    Example: carb data split carb-seed --out parts --train 0.5 --dev 0 --test 0.5

    Parameters
    ----------
    data
        carb-seed, a path, or hf://owner/name.
    out
        Folder for train.jsonl, dev.jsonl and test.jsonl.
    """
    add_cultures(culture_file)
    parts = load(data).split({"train": train, "dev": dev, "test": test}, seed=seed)
    written = {name: part for name, part in parts.items() if len(part)}
    for name, part in written.items():
        part.save(out / f"{name}.jsonl")
    content = {name: {"sets": len(p), "fingerprint": Dataset(p).fingerprint} for name, p in written.items()}
    if json:
        display.print_json(content)
        return
    display.table(f"Split into {out}", ["part", "sets"], [(n, c["sets"]) for n, c in content.items()], ["sets"])
