"""RMB, its Best-of-N part: conversations with one best answer and several worse ones. A control, not culture.

Zhou et al. 2025, RMB: Comprehensively Benchmarking Reward Models in LLM Alignment, ICLR 2025, arXiv:2410.09893.

Use it to see whether a scorer that fails on culture also fails on plain preference. Every set carries a topic that
begins with ``control:``; Helpfulness stands under commonsense and Harmlessness under safety because a set must have a
domain, so report them apart from cultural sets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, TypeAdapter

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Kind, Provenance, Response, Role
from carb_data.sources.base import Options, Source
from carb_data.sources.grouping import SameItems, plain
from carb_data.sources.models import Skip
from carb_data.sources.reading import read_json

LICENSE = "Apache-2.0"
URL = "https://github.com/RM-R1-UIUC/RM-R1"
TOPIC = "control: "
DOMAINS = {"Helpfulness": Domain.COMMONSENSE, "Harmlessness": Domain.SAFETY}


class RmbOptions(Options):
    """Options of ``rmb``."""

    rejected: int = Field(3, ge=1, le=6, description="Worse answers per set; conversations with fewer are skipped")
    parts: Literal["both", "Helpfulness", "Harmlessness"] = Field("both", description="Which part to read")


class _Turn(BaseModel):
    role: str
    content: str
    language: str | None = None


class _Answer(BaseModel):
    llm_name: str
    answer: str


class _Row(BaseModel):
    conversation_input: list[_Turn]
    bon_best: _Answer
    loser_list: list[_Answer]
    bon_uid: str
    category_path: str


_Rows = TypeAdapter(list[_Row])


def build(path: Path, options: RmbOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every conversation.

    Args:
        path: the folder that holds ``BoN_set``, or one above it.
        options: The number of worse answers, and the part to build.
        seed: chooses the worse answers and the order.
    """
    candidates = (path, path / "BoN_set", path / "RMB_dataset" / "BoN_set")
    root = next((folder for folder in candidates if any((folder / part).is_dir() for part in DOMAINS)), path)
    files = sorted(file for part in DOMAINS for file in (root / part).rglob("*.json"))
    files = [file for file in files if options.parts in ("both", file.relative_to(root).parts[0])]
    if not files:
        raise CarbError(f"{path} does not hold RMB: no BoN_set with Helpfulness or Harmlessness in it.")
    same = SameItems()
    for file in files:
        part = file.relative_to(root).parts[0]
        topic = "/".join(file.relative_to(root).with_suffix("").parts)
        for row in read_json(file, _Rows, "RMB"):
            same.add(row.bon_uid, conversation(row.conversation_input))
            yield _make(row, DOMAINS[part], topic, same.name(row.bon_uid), options.rejected, seed)


def _make(row: _Row, domain: Domain, topic: str, source_id: str, count: int, seed: int) -> BonSet | Skip:
    def skip(reason: str) -> Skip:
        return Skip(source_id=row.bon_uid, reason=reason, culture="english", language="en")

    if not row.conversation_input or row.conversation_input[-1].role != "user":
        return skip("the conversation does not end with the user")
    if any(turn.language not in (None, "English") for turn in row.conversation_input):
        return skip("the conversation is not in English")
    best = row.bon_best.answer
    worse = [a for a in row.loser_list if a.answer.strip() and not _says_the_same(a.answer, best)]
    worse = list({plain(answer.answer): answer for answer in worse}.values())
    if not best.strip() or len(worse) < count:
        return skip(f"fewer than {count} different worse answers")
    random_ = random.Random(f"rmb:{seed}:{row.bon_uid}")
    answers = [row.bon_best, *random_.sample(worse, count)]
    order = random_.sample("abcdefg"[: count + 1], count + 1)
    return BonSet(
        id=f"rmb/{row.bon_uid}",
        culture="english",
        domain=domain,
        topic=TOPIC + topic,
        language="en",
        prompt=conversation(row.conversation_input),
        responses=tuple(
            Response(
                id=letter,
                text=answer.answer,
                role=Role.CHOSEN if answer is row.bon_best else Role.REJECTED,
                language="en",
                generator=answer.llm_name,
            )
            for letter, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])
        ),
        provenance=Provenance(
            source="rmb",
            source_id=source_id,
            license=LICENSE,
            url=URL,
            method="generated",
            notes="General preference, not culture: a control.",
        ),
        kind=Kind.CONTROL,
    )


def _says_the_same(one: str, other: str) -> bool:
    """Whether one answer holds the other whole: an option by its letter alone, and the same option explained."""
    first, second = f" {plain(one)} ", f" {plain(other)} "
    return first in second or second in first


def conversation(turns: list[_Turn]) -> str:
    """One user turn as it stands; several turns with a heading each."""
    if len(turns) == 1:
        return turns[0].content
    return "\n\n".join(f"{turn.role.capitalize()}: {turn.content}" for turn in turns)


SOURCE = Source(
    name="rmb",
    description="RMB: English conversations with one best and several worse answers; a control, not culture",
    license=LICENSE,
    rows=build,
    options=RmbOptions,
)
