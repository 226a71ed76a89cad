"""``carb data perturb``: perturbed versions of the right answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from carb_cli import display
from carb_cli.options import DataName, Flag, Json, Several
from carb_cli.output import print_json
from carb_cli.progress import progress
from carb_data import load
from carb_scorers.generate import perturb as perturb_sets


def perturb(
    data: DataName,
    *,
    out: Path,
    model: str,
    kinds: Annotated[tuple[Literal["CC", "RC", "CL", "RP"], ...], Several] = ("CC", "RC", "CL", "RP"),
    languages: Annotated[tuple[str, ...], Several] = ("en",),
    replace: Flag = False,
    seed: int = 0,
    store: Path | None = None,
    json: Json = False,
) -> None:
    """Add perturbed versions of the right answers, written by a language model.

    What it wrote passes checks of language, label, length and wording, and is marked unverified: that it means
    what it should only a reader can say.

    For example:

        carb data perturb my-sets.jsonl --kinds RP --model hf:path/to/model --out p.jsonl

    Parameters
    ----------
    out
        The .jsonl or .parquet file to write.
    kinds
        CC changes the concept, RC removes the culture's name, CL translates, RP paraphrases; may be repeated.
    languages
        Languages into which CL translates, as BCP 47 tags; may be repeated.
    model
        Spec of the model that writes, for example openai:MODEL?url=http://localhost:8000/v1 or
        hf:FOLDER?one_line=true for a base model.
    replace
        Make versions again that a set has already.
    seed
        Seed of the model's sampling.
    store
        File of the model's answers, from which the same command goes on; by default beside out.
    """
    with progress() as report:
        made, found = perturb_sets(
            load(data),
            kinds,
            model,
            languages=languages,
            replace=replace,
            seed=seed,
            store=store or Path(f"{out}.answers.jsonl"),
            progress=lambda done, total, failed: report("perturb", done, total, f"{failed} failed"),
        )
    made.save(out)
    if json:
        print_json({"out": str(out), "sets": len(made), **found.model_dump(mode="json")})
        return
    texts = ", ".join(f"{kind} {number}" for kind, number in found.made.items()) or "nothing"
    display.say(f"Made {texts}; {len(made):,} sets written to {out}")
    if found.made:
        display.say("What the model wrote is marked unverified: let somebody read it.")
    if found.skipped:
        display.table("Not asked for", ["reason", "n"], list(found.skipped.items()), ["n"])
    if found.failures:
        rows = [
            (f.item_id, f.perturbation, f.language, f.reasons[-1] if f.reasons else "") for f in found.failures[:20]
        ]
        display.table(f"{len(found.failures)} could not be made", ["set", "kind", "language", "last reason"], rows)
