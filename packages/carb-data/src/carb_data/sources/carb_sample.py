"""The sample of the paper's sets that its first author published for annotators, read as it is.

Two folders hold 100 sets for each of ten languages; 190 sets stand in both. The same item stands in
several languages.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from carb_data.declaration import Declaration, Skip
from carb_data.errors import CarbError
from carb_data.models import BonSet, Culture, Domain, Frozen, Response, Role
from carb_data.registry import cultures
from carb_data.validation import read_file

OPTIONS = Frozen

_DOMAINS = {
    "cultural_commonsense": Domain.COMMONSENSE,
    "cultural_value": Domain.VALUES,
    "cultural_toxicity": Domain.SAFETY,
    "cultural_linguistic": Domain.LINGUISTICS,
}


class _Row(Frozen, extra="ignore"):
    id: str
    language: str
    country: str | None
    prompt: str
    chosen: tuple[str]
    rejected: tuple[str, str, str]
    chosen_model: tuple[str]
    rejected_model: tuple[str, str, str]
    subset: str
    source: str
    additional_metadata: str


def build(
    declaration: Declaration,
    path: Path,
    _: Frozen,
    seed: int,
) -> Iterator[BonSet | Skip]:
    """Yield a set for every item and language, or a skip; the seed drives the order of the
    responses."""
    files = sorted(path.glob("completion_*/*.json"))
    if not files:
        raise CarbError(
            f"{path} does not hold carb-sample: nothing there is called completion_judgment/*.json."
        )
    speaking = {culture.name: culture for culture in cultures}
    seen = set()
    for file in files:
        for row in read_file(list[_Row], file, "file of carb-sample"):
            name = f"carb-sample/{row.id}/{row.language}"
            reason = _defect(row, speaking, again=name in seen)
            seen.add(name)
            if reason is None:
                yield _set(declaration, row, name, speaking[row.language], seed)
            else:
                yield Skip(source_id=name, reason=reason)


def _defect(row: _Row, speaking: dict[str, Culture], *, again: bool) -> str | None:
    if again:
        return "it stands in both folders"
    if row.language not in speaking or row.subset not in _DOMAINS:
        return "its language or its subset is not known"
    if len({*row.chosen, *row.rejected}) < 4:
        return "two of its answers are the same"
    return None


def _set(
    declaration: Declaration,
    row: _Row,
    name: str,
    speakers: Culture,
    seed: int,
) -> BonSet:
    answers = [
        *zip(row.chosen, row.chosen_model, strict=True),
        *zip(row.rejected, row.rejected_model, strict=True),
    ]
    count = len(answers)
    order = random.Random(f"{seed}:{name}").sample(range(count), count)
    notes = _notes(json.loads(row.additional_metadata))
    variety = cultures.of_country(row.country or "")
    return BonSet(
        id=name,
        culture=variety or speakers.id,
        domain=_DOMAINS[row.subset],
        topic=row.source,
        language=speakers.language,
        prompt=row.prompt,
        responses=tuple(
            Response(
                id=letter,
                text=answers[n][0],
                role=Role.REJECTED if n else Role.CHOSEN,
                language=speakers.language,
                generator=answers[n][1],
            )
            for letter, n in zip("abcd", order, strict=True)
        ),
        provenance=declaration.provenance(row.id, notes),
    )


def _notes(metadata: dict[str, Any]) -> str | None:
    """The question of the World Values Survey with the country's mean, or the page or the
    assertion."""
    if "wvs_meta" in metadata:
        asked = metadata["wvs_meta"]
        question = metadata["question_meta"]["question"]
        return (
            f"{question} ({asked['country']}: mean {asked['value_qa']} of {asked['group_size']} "
            "people)"
        )
    return metadata.get("url") or metadata.get("assertion")
