"""``carb data construct`` and ``carb data perturb``: sets and texts written by language models."""

from pathlib import Path
from typing import Annotated, Literal

from carb_cli.display import money, say, table
from carb_cli.json_output import print_json
from carb_cli.options import DataFile, DataName, Flag, Json, Names, Several, refuse
from carb_cli.progress import progress
from carb_cli.selection import loaded
from carb_scorers import generate


def construct(*, config: Path, out: DataFile, json: Json = False) -> None:
    """Write sets from reference texts with language models: question, right answer, wrong answers,
    filters.

    The models' answers are kept beside --out: the same command resumes after an interruption and
    pays for nothing twice. A limit in the configuration tries it on a few references.

    For example:

        carb data construct --config construct.toml --out constructed.jsonl

    Parameters
    ----------
    config
        TOML file that names the references and the models.
    """
    wanted = generate.read_construct_config(config)
    with progress() as report:
        made = generate.construct(
            wanted,
            out,
            progress=lambda done, total, failed: report(
                "construct", done, total, f"{failed} failed"
            ),
        )
    _show("culture / domain", made, out, json=json)


def perturb(
    data: DataName,
    *,
    out: DataFile,
    model: str,
    kinds: Annotated[tuple[Literal["CC", "RC", "CL", "RP"], ...], Several] = (
        "CC",
        "RC",
        "CL",
        "RP",
    ),
    languages: Names = (),
    seed: int = 0,
    json: Json = False,
) -> None:
    """Add perturbed versions of the right answers, written by a language model.

    Its texts pass checks of language, label, length and wording, and are marked unverified: only a
    reader can confirm their meaning. Its answers are kept beside --out: the same command pays for
    nothing twice.

    For example:

        carb data perturb my-sets.jsonl --kinds RP --model hf:path/to/model --out p.jsonl

    Parameters
    ----------
    kinds
        CC changes the concept, RC removes the culture's name, CL translates, RP paraphrases; may be
        repeated.
    languages
        Languages into which CL translates, as BCP 47 tags; may be repeated. Default: en.
    model
        Spec of the model that writes, for example openai:MODEL?url=http://localhost:8000/v1 or
        hf:FOLDER?one_line=true for a base model.
    seed
        Seed of the model's sampling.
    """
    refuse(languages and "CL" not in kinds, "--languages", "without --kinds CL")
    with progress() as report:
        sets, made = generate.perturb(
            loaded(data),
            kinds,
            model,
            languages=languages or ("en",),
            seed=seed,
            store=Path(f"{out}.answers.jsonl"),
            progress=lambda done, total, failed: report("perturb", done, total, f"{failed} failed"),
        )
    sets.save(out)
    _show("perturbation", made, out, json=json)
    if made.made and not json:
        say("The model's texts are marked unverified: let somebody read them.")


def _show(
    kind: str,
    made: generate.WriteReport,
    out: Path,
    *,
    json: Flag,
) -> None:
    if json:
        print_json({"out": str(out), **made.model_dump(mode="json")})
        return
    table(
        f"Made {sum(made.made.values())}; written to {out}",
        [kind, "n"],
        list(made.made.items()),
        ["n"],
    )
    for title, reasons in (("Texts written again", made.discarded), ("Not tried", made.skipped)):
        if reasons:
            table(title, ["reason", "n"], list(reasons.items()), ["n"])
    if made.given_up:
        shown = made.given_up[:20]
        rows = [(one.name, one.step, one.reasons[-1]) for one in shown]
        table(f"{len(made.given_up)} could not be made", ["for", "step", "last reason"], rows)
    say(f"Cost of this run by the prices in the models' specs: {money(made.cost)}")
