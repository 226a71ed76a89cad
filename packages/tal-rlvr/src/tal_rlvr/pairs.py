"""Preference pairs, and the forms of data that they are read from."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from carb_data import BonSet, CarbError, load
from carb_data.models import Frozen
from tal_rlvr.judgement import Verdict

Form = Literal["carb", "helpsteer3", "care", "preference"]
"""``carb``: Best-of-N sets. ``helpsteer3``, ``care``: as published. ``preference``: prompt / chosen / rejected."""


class Pair(Frozen):
    """One question with a better and a worse response."""

    id: str
    source_item: str
    """What a split must not divide."""
    prompt: str
    chosen: str
    rejected: str
    culture: str
    """Id in the registry, or a name; ``general`` where the source knows none."""
    language: str
    domain: str | None = None
    difficulty: float = Field(default=0.5, ge=0.0, le=1.0)
    """0 easy to 1 hard, as far as the source tells: how alike the two responses are rated; 0.5 where it does not."""


class OrderedPair(Frozen):
    """A pair as it is shown: which response is A, and which verdict is right."""

    pair: Pair
    first: str
    second: str
    label: Verdict


def both_orders(pair: Pair) -> tuple[OrderedPair, OrderedPair]:
    """The pair with the better response first, and second: trained on both, position carries no signal."""
    return (
        OrderedPair(pair=pair, first=pair.chosen, second=pair.rejected, label="A"),
        OrderedPair(pair=pair, first=pair.rejected, second=pair.chosen, label="B"),
    )


def pairs_from_set(item: BonSet) -> list[Pair]:
    """One pair per rejected response."""
    return [
        Pair(
            id=f"{item.id}/{rejected.id}",
            source_item=item.source_item,
            prompt=item.prompt_text,
            chosen=item.chosen.text,
            rejected=rejected.text,
            culture=item.culture,
            language=item.language,
            domain=str(item.domain),
        )
        for rejected in item.rejected
    ]


def off_topic_pairs(dataset: Iterable[BonSet], *, seed: int = 0) -> list[Pair]:
    """The right response against the right response to another question of the same culture, on another topic.

    A task about relevance rather than culture.
    """
    return _contrasted(
        dataset, "off-topic", lambda item, o: o.topic != item.topic and o.language == item.language, seed
    )


def other_language_pairs(dataset: Iterable[BonSet], *, seed: int = 0) -> list[Pair]:
    """The right response against a right response of the same culture in another language than the question's.

    An easy task: does a response keep to the asker's language? It shows whether a model can learn in this form at all.
    Responses without a letter are left out, since a number has no language.
    """

    def differs(item: BonSet, other: BonSet) -> bool:
        return other.language != item.language and any(map(str.isalpha, other.chosen.text))

    return _contrasted(dataset, "other-language", differs, seed)


def _contrasted(dataset: Iterable[BonSet], task: str, fits: Callable[[BonSet, BonSet], bool], seed: int) -> list[Pair]:
    by_culture: dict[str, list[BonSet]] = defaultdict(list)
    for item in dataset:
        by_culture[item.culture].append(item)
    pairs = []
    for culture, items in sorted(by_culture.items()):
        rng = random.Random(f"{seed}\0{task}\0{culture}")
        for item in items:
            used = {response.text.casefold() for response in item.responses}
            others = [o for o in items if fits(item, o) and o.chosen.text.casefold() not in used]
            if others:
                other = rng.choice(others)
                update = {"id": f"{item.id}/{task}", "rejected": other.chosen.text}
                pairs.append(pairs_from_set(item)[0].model_copy(update=update))
    return pairs


def read_pairs(form: Form, path: str, *, culture: str | None = None, language: str | None = None) -> list[Pair]:
    """Read the pairs of one source.

    Args:
        form: see ``Form``.
        path: for ``carb`` anything that ``carb_data.load`` takes; otherwise a ``.jsonl`` or ``.json`` file, also with
            ``.gz``.
        culture: for rows that name none; default ``general``.
        language: for rows that name none; default ``en``.

    Raises:
        CarbError: the file is not there or has not that form.
    """
    if form == "carb":
        return [pair for item in load(path) for pair in pairs_from_set(item)]
    rows = _read_rows(Path(path))
    readers = {"helpsteer3": _helpsteer3, "care": _care, "preference": _preference}
    try:
        pairs = list(readers[form](rows, culture, language))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CarbError(f"{path} does not have the form '{form}': {type(error).__name__}: {error}.") from None
    if not pairs:
        raise CarbError(f"{path}, read as '{form}', holds no pair with a preference.")
    return pairs


def _read_rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CarbError(f"Cannot read {path}: {reason}.") from None
    try:
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        return list(json.loads(text))
    except (TypeError, ValueError) as error:
        raise CarbError(f"{path} is not valid JSON: {error}.") from None


def _helpsteer3(rows: Iterable[Mapping[str, Any]], culture: str | None, language: str | None) -> Iterator[Pair]:
    """HelpSteer3-Preference (Wang et al. 2025, arXiv 2505.11475): overall_preference -3 (response 1) to 3 (response 2).

    ``language`` there is a natural or a programming language by name; ties (0) carry no pair.
    """
    for number, row in enumerate(rows):
        preference = int(row["overall_preference"])
        if preference == 0:
            continue
        responses = row["response1"], row["response2"]
        prompt = _conversation(row["context"])
        yield Pair(
            id=f"helpsteer3-{number}",
            source_item=f"helpsteer3:{_digest(prompt)}",
            prompt=prompt,
            chosen=responses[preference > 0],
            rejected=responses[preference < 0],
            culture=culture or "general",
            language=language or _LANGUAGES.get(str(row.get("language", "")).lower(), "en"),
            domain=str(row["domain"]) if row.get("domain") else None,
            difficulty=1 - (abs(preference) - 1) / 2,
        )


def _care(rows: Iterable[Mapping[str, Any]], culture: str | None, language: str | None) -> Iterator[Pair]:
    """CARE (Guo et al. 2025, arXiv 2504.05154): several responses to a question, each rated by native speakers.

    Rows hold ``question``, ``response`` (or ``answer``), ``rating`` and may hold ``culture`` and ``language``. The
    best-rated response of a question is paired with each that is rated lower.
    """
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["question"]].append(row)
    for question, answers in groups.items():
        best = max(answers, key=lambda row: float(row["rating"]))
        lower = [row for row in answers if float(row["rating"]) < float(best["rating"])]
        span = max((float(best["rating"]) - float(row["rating"]) for row in lower), default=1.0)
        for number, row in enumerate(lower):
            yield Pair(
                id=f"care-{_digest(question)}-{number}",
                source_item=f"care:{_digest(question)}",
                prompt=question,
                chosen=_answer(best),
                rejected=_answer(row),
                culture=str(best.get("culture") or culture or "general").lower(),
                language=str(best.get("language") or language or "en"),
                difficulty=1 - (float(best["rating"]) - float(row["rating"])) / span,
            )


def _preference(rows: Iterable[Mapping[str, Any]], culture: str | None, language: str | None) -> Iterator[Pair]:
    for number, row in enumerate(rows):
        prompt = _conversation(row["prompt"])
        yield Pair(
            id=str(row.get("id", f"preference-{number}")),
            source_item=str(row.get("source_item") or _digest(prompt)),
            prompt=prompt,
            chosen=_conversation(row["chosen"], answer=True),
            rejected=_conversation(row["rejected"], answer=True),
            culture=str(row.get("culture") or culture or "general"),
            language=str(row.get("language") or language or "en"),
            domain=row.get("domain"),
        )


def _answer(row: Mapping[str, Any]) -> str:
    return str(row["response"] if "response" in row else row["answer"])


def _conversation(value: str | Sequence[Mapping[str, str]], *, answer: bool = False) -> str:
    """A text as it is; of messages the only one, all of them with their roles, or for an answer the last one."""
    if isinstance(value, str):
        return value
    if answer or len(value) == 1:
        return value[-1]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


_LANGUAGES = {
    "english": "en",
    "chinese": "zh",
    "korean": "ko",
    "french": "fr",
    "spanish": "es",
    "japanese": "ja",
    "german": "de",
    "russian": "ru",
    "portuguese": "pt",
    "italian": "it",
    "vietnamese": "vi",
    "dutch": "nl",
    "polish": "pl",
    "indonesian": "id",
    "arabic": "ar",
    "thai": "th",
}
