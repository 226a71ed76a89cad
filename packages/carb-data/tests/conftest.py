"""Hypothesis strategies for the data model; tests get them with ``strategies.from_type(BonSet)`` or
``Dataset``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

from carb_data import (
    BonSet,
    Citation,
    Dataset,
    Domain,
    Kind,
    Message,
    Perturbation,
    Provenance,
    Response,
    Role,
    Votes,
    cultures,
)

sys.path.insert(0, str(Path(__file__).parent))  # small_sets, a module of these tests

REAL = Path(__file__).parents[3].parent / "shared" / "data"
if REAL.is_dir():  # beside the repository; the package itself looks only where the variable says
    os.environ.setdefault("CARB_DATA_DIR", str(REAL))

settings.register_profile("carb", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("carb")

LANGUAGES = ("ar", "zh", "zh-Hans", "en", "de", "ja", "ko", "ru", "es", "th", "vi")
CULTURES = tuple(culture.id for culture in cultures)

characters = st.characters(exclude_categories=["Cs"])  # lone surrogates are no text in UTF-8
texts = st.text(characters, min_size=1, max_size=40).filter(lambda text: bool(text.strip()))
identifiers = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
optional_texts = st.none() | st.text(characters, max_size=12)


sources = st.builds(
    Citation,
    url=optional_texts,
    title=optional_texts,
    accessed=st.none() | st.dates(),
    note=optional_texts,
    fact=optional_texts,
)
votes = st.integers(1, 9).flatmap(
    lambda asked: st.builds(Votes, asked=st.just(asked), right=st.integers(0, asked))
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    before = draw(st.lists(st.sampled_from(["user", "assistant"]), max_size=2))
    roles = [*draw(st.sampled_from([[], ["system"]])), *before, "user"]
    return tuple(Message(role=role, content=draw(texts)) for role in roles)


@st.composite
def bon_sets(draw: st.DrawFn) -> BonSet:
    names = draw(st.lists(identifiers, min_size=2, max_size=9, unique=True))
    split = draw(st.integers(2, len(names)))
    chosen = draw(st.integers(0, split - 1))
    responses = [
        Response(
            id=name,
            text=draw(texts),
            role=Role.CHOSEN if place == chosen else Role.REJECTED,
            language=draw(st.sampled_from(LANGUAGES)),
            culture=draw(st.none() | st.sampled_from(CULTURES)),
            generator=draw(optional_texts),
            source=draw(st.none() | sources),
            votes=draw(st.none() | votes),
        )
        for place, name in enumerate(names[:split])
    ]
    perturbed = []
    for name in names[split:]:
        original = draw(st.sampled_from(responses))
        perturbed.append(
            Response(
                id=name,
                text=draw(texts),
                role=original.role,
                language=draw(st.sampled_from(LANGUAGES)),
                perturbation=draw(st.sampled_from(Perturbation)),
                original=original.id,
            )
        )
    return BonSet(
        id=draw(identifiers),
        culture=draw(st.sampled_from(CULTURES)),
        domain=draw(st.sampled_from(Domain)),
        topic=draw(optional_texts),
        language=draw(st.sampled_from(LANGUAGES)),
        prompt=draw(texts | conversations()),
        responses=tuple(responses),
        perturbed=tuple(perturbed),
        provenance=Provenance(
            source=draw(texts),
            source_id=draw(optional_texts),
            license=draw(texts),
            url=draw(optional_texts),
            method=draw(st.sampled_from(["human-vote", "authored", "generated"])),
            notes=draw(optional_texts),
        ),
        family=draw(st.none() | identifiers),
        kind=draw(st.none() | st.sampled_from(Kind)),
        place=draw(st.sampled_from([None, "named", "implied", "landmark"])),
        region=draw(st.sampled_from([None, "AT", "GB-SCT", "DE-HE-fulda"])),
        wording_of=draw(st.none() | identifiers),
        form=draw(st.sampled_from([None, "short", "minimal-pair", "reply"])),
    )


st.register_type_strategy(BonSet, bon_sets())
st.register_type_strategy(
    Dataset, st.lists(bon_sets(), max_size=4, unique_by=lambda item: item.id).map(Dataset)
)
