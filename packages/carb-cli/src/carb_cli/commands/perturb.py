"""``carb data perturb``: perturbed versions of the right answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import DataName, Json, Several, embedder_spec
from carb_cli.output import Output, OutputPart
from carb_cli.progress import progress
from carb_data import CarbError, load
from carb_data.construct import EmbedderSpec, ModelSpec
from carb_data.construct.calls import ModelUsage
from carb_data.perturb import perturb as perturb_sets
from carb_data.validation import validate
from carb_scorers.models.construction import ConstructionModels


class FailedVersion(OutputPart):
    """A version that could not be made, and why, attempt by attempt."""

    item_id: str
    perturbation: str
    language: str
    reasons: tuple[str, ...]


class Perturbed(Output):
    """Output of ``carb data perturb --json``."""

    schema_: Literal["carb.data.perturb/1"] = Field(default="carb.data.perturb/1", alias="schema")
    out: str
    sets: int
    made: dict[str, int]
    """New texts by perturbation."""
    unverified: dict[str, int]
    """How many of these no embedding model verified, by perturbation."""
    false_rejects: dict[str, float]
    """Share of carb-seed's hand-made versions that the embedding model refuses, by perturbation; empty without one."""
    false_accepts: dict[str, float]
    """Share of refusals and other answers that it accepts, by perturbation; empty without one."""
    skipped: dict[str, int]
    """Reasons, and how many versions were not asked for because of each."""
    failures: tuple[FailedVersion, ...]
    usage: dict[str, ModelUsage]
    cost: float


def perturb(
    data: DataName,
    *,
    out: Path,
    kinds: Annotated[tuple[Literal["CC", "RC", "CL", "RP"], ...], Several] = ("RC",),
    languages: Annotated[tuple[str, ...], Several] = ("en",),
    model: str | None = None,
    url: str | None = None,
    body: str = "{}",
    embedder: str | None = None,
    embedder_url: str | None = None,
    chat: bool = True,
    replace: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    seed: int = 0,
    journal: Path | None = None,
    json: Json = False,
) -> None:
    """Add perturbed versions of the right answers: RC by rule, CL, RP and CC by a language model.

    An embedding model that is calibrated on carb-seed verifies what a model wrote; without one it is marked unverified.

    For example:

        carb data perturb carb-seed --kinds RC --out perturbed.jsonl

    Parameters
    ----------
    out
        The .jsonl or .parquet file to write.
    kinds
        CC changes the concept, RC removes the culture's name, CL translates, RP paraphrases; may be repeated.
    languages
        Languages into which CL translates, as BCP 47 tags; may be repeated.
    model
        The model that writes CL, RP and CC: a server's name for it, or without --url a local folder or hub id.
    url
        Address of an OpenAI-compatible server, for example http://localhost:8000/v1; its key is read from
        OPENAI_API_KEY.
    body
        A JSON object put into every request to --url; a null takes a field out, as reasoning models want:
        '{"max_tokens": null, "max_completion_tokens": 4096, "temperature": null}'.
    embedder
        The embedding model that verifies; by default the local model of --model, none where that is a server's.
    embedder_url
        The OpenAI-compatible server of the embedding model; without it the embedder is a local folder or hub id.
    chat
        Whether the model takes chat messages; base models do not.
    replace
        Make versions again that a set has already.
    seed
        Seed of the model's sampling.
    journal
        File of the model's answers, from which the same command goes on; by default beside out.
    """
    generator = None
    if model is not None:
        generator = validate(
            ModelSpec,
            {
                "kind": "transformers" if url is None else "openai",
                "model": model,
                "url": url,
                "chat": chat,
                "body": body,
            },
            "--body is no JSON object",
        )
    elif set(kinds) - {"RC"}:
        raise CarbError(
            "CC, CL and RP are written by a language model: name one with --model, and --url if it is a server's."
        )
    with progress() as report:
        found = perturb_sets(
            load(data),
            kinds,
            models=ConstructionModels(),
            generator=generator,
            embedder=_embedder(embedder, embedder_url, generator),
            languages=languages,
            replace=replace,
            seed=seed,
            journal=None if generator is None else journal or Path(f"{out}.journal.jsonl"),
            progress=lambda done, total, failed: report("perturb", done, total, f"{failed} failed"),
        )
    found.dataset.save(out)
    rates = found.calibration
    output = Perturbed(
        out=str(out),
        sets=len(found.dataset),
        made=found.made,
        unverified=found.unverified,
        false_rejects={} if rates is None else {str(kind): rate for kind, rate in rates.false_rejects.items()},
        false_accepts={} if rates is None else {str(kind): rate for kind, rate in rates.false_accepts.items()},
        skipped=found.skipped,
        failures=tuple(
            FailedVersion(item_id=f.item_id, perturbation=str(f.perturbation), language=f.language, reasons=f.reasons)
            for f in found.failures
        ),
        usage=found.usage,
        cost=found.cost,
    )
    if json:
        output.print()
        return
    _show(output)


def _embedder(name: str | None, url: str | None, generator: ModelSpec | None) -> EmbedderSpec | None:
    spec = embedder_spec(name, url)
    if spec is None and generator is not None and generator.kind == "transformers":
        return EmbedderSpec(kind="transformers", model=generator.model)
    return spec


def _show(found: Perturbed) -> None:
    made = ", ".join(f"{kind} {number}" for kind, number in found.made.items()) or "nothing"
    display.say(f"Made {made}; {found.sets:,} sets written to {found.out}")
    if found.unverified:
        unverified = ", ".join(f"{kind} {number}" for kind, number in found.unverified.items())
        display.say(f"Marked unverified: {unverified}. Name an embedding model that verifies them with --embedder.")
    for kind, share in found.false_accepts.items():
        refused = found.false_rejects[kind]
        display.say(
            f"{kind}: the embedding model accepts {share:.0%} of texts that are no versions and refuses {refused:.0%} "
            "of good ones (held-out sets of carb-seed)."
        )
    if found.skipped:
        display.table("Not asked for", ["reason", "n"], list(found.skipped.items()), ["n"])
    if found.failures:
        rows = [
            (f.item_id, f.perturbation, f.language, f.reasons[-1] if f.reasons else "") for f in found.failures[:20]
        ]
        display.table(f"{len(found.failures)} could not be made", ["set", "kind", "language", "last reason"], rows)
