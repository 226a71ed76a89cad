"""``carb data``: list, split, fetch, build."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from carb_cli.display import advice, say, table
from carb_cli.json_output import print_json
from carb_cli.options import DataFile, DataName, Flag, Json, OutFolder, refuse
from carb_cli.progress import progress
from carb_cli.selection import loaded
from carb_data import SEED, CarbError, load, seed_folders
from carb_data.sources import build as build_source
from carb_data.sources import open_source, source_names
from carb_data.sources.source_files import Fetched, fetchable
from carb_data.sources.source_files import fetch as fetch_source

OWN = ("name", "path", "out", "seed", "progress")
"""What a build takes beside the options of its source."""


def list_(*, json: Json = False) -> None:
    """List the data sets and sources that can be used here.

    For example:

        carb data list
    """
    seeds = {name: load(name) for name in seed_folders() if name != SEED}
    datasets = [
        {"name": name, "sets": len(seed), "fingerprint": seed.fingerprint}
        for name, seed in seeds.items()
    ]
    opened = map(open_source, source_names())
    known = [
        {"name": one.name, "license": one.license, "description": one.description} for one in opened
    ]
    if json:
        print_json({"datasets": datasets, "sources": known})
        return
    table(
        "Data sets",
        ["name", "sets", "fingerprint"],
        [tuple(row.values()) for row in datasets],
        ["sets"],
    )
    table("Sources", ["name", "licence", "what it is"], [tuple(row.values()) for row in known])
    say(f"carb-seed is {list(seeds)[-1]}.")
    say("Next: carb data show carb-seed, or carb data build NAME --out FILE.jsonl")


def split(
    data: DataName,
    *,
    out: Annotated[Path, OutFolder],
    train: float = 0.8,
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Divide a data set by origin: no source item, family, fact or translation crosses a border.

    Sets that share a text, or nearly, stay together as well.

    For example:

        carb data split carb-seed --out parts --train 0.5 --dev 0 --test 0.5

    Parameters
    ----------
    out
        Folder for train.jsonl, dev.jsonl and test.jsonl.
    train
        Share of the sets for training.
    dev
        Share for development; 0 leaves the part out.
    test
        Share for tests.
    seed
        Seed of the assignment of origins to parts.
    """
    shares = {"train": train, "dev": dev, "test": test}
    parts = loaded(data).split(shares, seed=seed, apart=True)
    rows = {}
    for name, part in parts.items():
        if len(part):
            path = out / f"{name}.jsonl"
            part.save(path)
            rows[name] = {"path": str(path), "sets": len(part), "fingerprint": part.fingerprint}
    if json:
        print_json({"parts": rows})
    else:
        shown = [(name, row["sets"]) for name, row in rows.items()]
        table(f"Split into {out}", ["part", "sets"], shown, ["sets"])


def fetch(
    *names: str,
    accept_no_licence: Flag = False,
    json: Json = False,
) -> None:
    """Fetch the published files of open sources, pinned and checked, so that `carb data build`
    finds them.

    The files are kept in the cache folder: CARB_CACHE, by default ~/.cache/carb. Files
    that are there with the right sha256 are not fetched again.

    For example:

        carb data fetch blend

    Parameters
    ----------
    names
        Names of sources; all stands for every source with a licence.
    accept_no_licence
        Fetch files without a licence, too. Judge yourself whether you may use them.
    """
    known = fetchable()
    if not names:
        raise CarbError(
            f"Name sources to fetch, or all: {', '.join(known)}. carb data list has their licences."
        )
    licensed = [
        name for name, source in known.items() if accept_no_licence or not source.needs_consent
    ]

    def fetched(name: str) -> Fetched:
        with progress() as report:
            return fetch_source(
                name,
                accept_no_licence=accept_no_licence,
                progress=lambda done, total: report(f"fetch {name}", done, total, "files"),
            )

    if names != ("all",):
        licensed = [*names]
    sources = [fetched(name) for name in licensed]
    if json:
        print_json({"fetched": sources})
        return
    for one in sources:
        say(
            f"{one.source}: {one.files} files ({one.new} new) in {one.folder}. Licence: "
            f"{one.license}."
        )
    say(f"Next: carb data build {sources[0].source} --out {sources[0].source}.jsonl")


def build(
    name: str,
    *,
    source: Path | None = None,
    out: DataFile,
    seed: int = 0,
    option: Annotated[tuple[str, ...], Parameter(name=["--option", "-o"], negative=())] = (),
    json: Json = False,
) -> None:
    """Build a data set from a public source, and report built and skipped items with the reasons.

    For example:

        carb data build blend --out blend.jsonl

    Parameters
    ----------
    name
        The source; `carb data list` shows them. Or a .toml file that declares one.
    source
        Folder or file that holds the source's data. By default, the files of `carb data fetch`, or
        a folder of the source's name in CARB_DATA_DIR.
    seed
        Seed of all random choices.
    option
        An option of the source, as name=value; may be repeated.
    """
    options: dict[str, Any] = {}
    for text in option:
        key, separator, value = text.partition("=")
        if not separator:
            raise CarbError(f"--option {text}: write name=value.")
        key = key.replace("-", "_")
        refuse(key in (*options, *OWN), f"--option {key}", "beside another one of that name")
        options[key] = value
    with progress() as report:
        result = build_source(
            name,
            source,
            out,
            seed=seed,
            progress=lambda built, skipped: report(
                f"build {name}", built, 0, f"built, {skipped} skipped"
            ),
            **options,
        )
    if json:
        print_json(result)
        return
    for sentence in result.notes:
        advice(sentence)
    rows = [(culture, sum(domains.values())) for culture, domains in result.counts.items()]
    table(f"Built {result.built} sets in {out}", ["culture", "sets"], rows, ["sets"])
    table(f"Skipped {result.skipped}", ["reason", "n"], list(result.reasons.items()), ["n"])
