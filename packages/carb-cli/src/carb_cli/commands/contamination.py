"""``carb data contamination``: is test data in training data?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from carb_cli import display
from carb_cli.main import FAILED, OK
from carb_cli.options import CultureFile, Json, Quiet, Several, add_cultures, embedder_spec
from carb_cli.output import Output
from carb_cli.progress import progress
from carb_data import BonSet, CarbError, ContaminationReport, check_contamination, load
from carb_data.contamination import THRESHOLD
from carb_data.extras import require
from carb_data.language import detect
from carb_data.verification import calibrate
from carb_scorers.models.construction import ConstructionModels

SHOWN = 20
SIMILARITY = 0.5
"""Calibrated cosine that counts. With Gemma 3 270M no two of 700 texts with other meanings reached 0.27."""


class Contamination(Output, ContaminationReport):
    """Output of ``carb data contamination --json``."""

    schema_: Literal["carb.data.contamination/1"] = Field(default="carb.data.contamination/1", alias="schema")


def contamination(
    *,
    train: Annotated[tuple[str, ...], Several],
    test: Annotated[tuple[str, ...], Several] = ("carb-seed",),
    threshold: float = THRESHOLD,
    embedder: str | None = None,
    embedder_url: str | None = None,
    similarity: float = SIMILARITY,
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Look for test items in training data: by source item, by exact text, by shared n-grams, and by meaning.

    Exits with 1 when there are any. Paraphrases and translations are found with an embedding model alone, as far as it
    sees them: its vectors are calibrated on carb-seed first.

    For example:

        carb data contamination --train train.txt --test carb-seed

    Parameters
    ----------
    train
        Data sets, or .txt files with a text on each line; may be repeated.
    test
        Data sets; may be repeated.
    threshold
        Least share of a test text's n-grams that one training text must hold to count.
    embedder
        The embedding model that finds paraphrases and translations; none by default.
    embedder_url
        The OpenAI-compatible server of the embedding model; without it the embedder is a local folder or hub id.
    similarity
        Least cosine of a training text to a test text that counts, of vectors centred by language, with --embedder.
    """
    add_cultures(culture_file)
    items = [item for name in test for item in load(name)]
    with _embedding(embedder, embedder_url) as embed, progress(quiet) as report:
        found = check_contamination(
            _texts(train),
            items,
            threshold=threshold,
            embed=embed,
            similarity=similarity,
            progress=lambda read: report("training texts", read, 0, ""),
        )
    if json:
        Contamination.model_validate(found.model_dump()).print()
    else:
        _show(found)
    return OK if found.clean else FAILED


@contextmanager
def _embedding(name: str | None, url: str | None) -> Iterator[Callable[[Sequence[str]], list[list[float]]] | None]:
    """What gives texts their calibrated vectors, each in the language that it seems to be in."""
    spec = embedder_spec(name, url)
    if spec is None:
        yield None
        return
    portals = require("anyio.from_thread", package="carb-data", extra="construct")
    opened = ConstructionModels().embedder(spec)

    async def raw(texts: Sequence[str]) -> list[list[float]]:
        return (await opened.embed(texts))[0]

    with portals.start_blocking_portal() as portal:  # one event loop for all calls: connections belong to it
        calibration = portal.call(calibrate, raw)

        def embed(texts: Sequence[str]) -> list[list[float]]:
            vectors = portal.call(raw, list(texts))
            return [calibration.standardised(v, detect(t) or "") for v, t in zip(vectors, texts, strict=True)]

        yield embed
        portal.call(opened.aclose)


def _texts(names: Iterable[str]) -> Iterator[str | BonSet]:
    for name in names:
        if name.endswith(".txt"):
            try:
                with Path(name).open(encoding="utf-8") as file:
                    yield from (line.strip() for line in file if line.strip())
            except OSError as error:
                raise CarbError(f"Cannot read {name}: {error.strerror}.") from None
            except UnicodeDecodeError:
                raise CarbError(f"{name} is not text in UTF-8.") from None
        else:
            yield from load(name, registry=None)


def _show(found: ContaminationReport) -> None:
    display.say(f"{found.train_texts:,} training texts, {found.test_items:,} test items.")
    if found.clean:
        display.say(f"No test item is in the training data (n-gram share below {found.threshold:g}).")
        return
    rows = [
        (o.item_id, o.field, o.kind, f"{o.score:.2f}", o.train_id or f"line {o.train_position + 1}", o.test_text[:60])
        for o in found.overlaps[:SHOWN]
    ]
    display.table("In the training data", ["item", "field", "how", "share", "training entry", "text"], rows, ["share"])
    if len(found.overlaps) > SHOWN:
        display.say(f"... and {len(found.overlaps) - SHOWN:,} more; --json lists them all.")
    kinds = ", ".join(f"{kind} {number}" for kind, number in found.counts.items() if number)
    display.say(f"{len(found.contaminated):,} of {found.test_items:,} test items are in the training data: {kinds}.")
