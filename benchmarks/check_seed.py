"""What a fact bank of the seed and its families must keep, checked at once, for the seed's authors.

Usage: python benchmarks/check_seed.py [--language ko] [FOLDER]

A language adds what its writers should look at, and leaves out the texts of the others.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlsplit

import check_texts

from carb_data.dataset import SEED, seed_folders
from carb_data.errors import Problem
from carb_data.facts import Fact, Line
from carb_data.family import Bank, Family, missing_facts, read_bank
from carb_data.models import Domain, Kind, as_text
from carb_data.registry import Registry, cultures, is_main
from carb_data.surface import names_culture

LENGTHS = 2.0
"""How many times the mean length an answer may have at most; at least, the inverse."""
_WITHOUT = {"found": "nobody found it on its page", "reread": "nobody but its author has read it"}
"""What a fact lacks without a step of ``Fact.checked``. Its readers say it; no program can see
it."""
REFUSED = frozenset(Path(__file__).with_name("refused.txt").read_text("utf-8").split())
"""Hosts that prove nothing: shops, fan pages, content farms, copies of wikis, shorteners of
links."""
NAMESAKES = frozenset(Path(__file__).with_name("namesakes.txt").read_text("utf-8").splitlines())
"""A language and a name that its readers may look for in another country, or take for an ordinary
word."""
_BESIDE = re.compile(r"(in|nach|aus|to|at|en|a|de|в|во|في|إلى|ที่|ở|在|去|에|에서|의)?")
"""All that may stand beside a place's bare name: what is more tells which one is meant."""
REPLY_WORDS = (60, 200)
"""Words of a reply, in scripts that space words."""
REPLY_CHARACTERS = (90, 700)
"""Characters of a reply, in scripts that do not."""
NOTHING = "nothing"
"""The value of a fact that people say nothing on an occasion."""


def _base(language: str) -> str:
    return language.partition("-")[0].lower()


def check_bank(bank: Bank, *, today: date, registry: Registry = cultures) -> list[Problem]:
    """Every problem of a fact bank and its families, in file order.

    Args:
        bank: the bank that ``read_bank`` returned.
        today: the day on which facts must still hold.
        registry: cultures that may occur.
    """
    facts = bank.by_id
    places = {fact.place.lower() for fact in facts.values()}
    return [
        *_repeated(bank.facts),
        *_repeated(bank.families),
        *(
            _at(line, *found)
            for line in bank.facts
            for found in _fact_problems(line.content, today, registry, places)
        ),
        *(
            _at(line, *found)
            for line in bank.families
            for found in _family_problems(line.content, facts, registry)
        ),
    ]


def _at(line: Line[Fact] | Line[Family], field: str, reason: str) -> Problem:
    return Problem(line.file, line.number, field, f"{line.content.id}: {reason}")


def _repeated(lines: tuple[Line[Fact], ...] | tuple[Line[Family], ...]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for line in lines:
        where = first.setdefault(line.content.id, f"{line.file}:{line.number}")
        if where != f"{line.file}:{line.number}":
            yield _at(line, "id", f"is the id of an earlier line, {where}")


def _fact_problems(
    fact: Fact, today: date, registry: Registry, places: Collection[str]
) -> Iterator[tuple[str, str]]:
    if fact.culture not in registry:
        yield "culture", f"'{fact.culture}' is not in the registry"
    elif fact.place[:2] not in {region[:2] for region in registry[fact.culture].regions}:
        yield "culture", f"'{fact.culture}' is not the culture of {fact.place}"
    for other in fact.also:
        if other not in registry and other not in places:
            yield "also", f"'{other}' is not in the registry, nor the place of a fact"
        if other == fact.culture:
            yield "also", "names the fact's own culture"
    address = urlsplit(fact.source.url)
    if address.path.strip("/") in ("", "index.html", "index.php") and not address.query:
        yield (
            "source.url",
            f"is the root of a site, not the page that states the fact: {fact.source.url}",
        )
    if fact.source.accessed > today:
        yield "source.accessed", f"{fact.source.accessed} is in the future"
    if fact.kind is Kind.FORMULA and fact.says is None and fact.value != NOTHING:
        yield "says", "a formula needs its phrase and the phrase's language"
    yield from _evidence_problems(fact)
    steps = _WITHOUT if fact.evidence is None else ("found",)
    yield from (("checked", _WITHOUT[step]) for step in steps if step not in fact.checked)


def _evidence_problems(fact: Fact) -> Iterator[tuple[str, str]]:
    """A fact that says what its pages are must have such pages."""
    if fact.evidence is None:
        return
    hosts = [_host(page.url) for page in (fact.source, fact.second_source) if page is not None]
    yield from (("source.url", f"{host} proves nothing") for host in hosts if _refused(host))
    if fact.evidence == "independent" and len(set(hosts)) < 2 and not _repositories(fact):
        yield "second_source", "two independent pages are on two sites"


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")


def _refused(host: str) -> bool:
    """Whether a host proves nothing: it is on the list, or a bare address that no publisher stands
    behind."""
    if re.fullmatch(r"[\d.]+|.*:.*", host):
        return True
    return any(host == name or host.endswith(f".{name}") for name in REFUSED)


def _repositories(fact: Fact) -> bool:
    """Whether its two pages are files of two owners on one site for code."""
    pages = [page for page in (fact.source, fact.second_source) if page is not None]
    return len({urlsplit(page.url).path.split("/")[1] for page in pages}) == 2


def _family_problems(
    family: Family, facts: Mapping[str, Fact], registry: Registry
) -> Iterator[tuple[str, str]]:
    absent = missing_facts(family, facts)
    if absent:
        yield "answers", f"no such fact in the bank: {', '.join(absent)}"
        return
    own = [facts[answer.fact] for answer in family.answers]
    yield from (("answers", f"{fact.id} is bronze") for fact in own if fact.evidence == "bronze")
    yield from _topics(family, own)
    yield from _exclusion(family, own, registry)
    for place in family.places:
        if _is_ambiguous(place.name, _base(family.language)):
            yield (
                "places",
                f"'{place.name}' may be in another country, too: name the country or the region",
            )
    pages = {page.url for fact in own for page in (fact.source, fact.second_source) if page}
    if len(family.places) > 1 and len(pages) == 1:
        yield "answers", f"all four facts rest on one page, {pages.pop()}"
    spoken = {
        region
        for culture in registry
        if _base(culture.language) == _base(family.language)
        for region in (*culture.regions, *_territories(culture.id, registry))
    }
    if not any(fact.place[:2] in spoken for fact in own[: len(family.places)]):
        yield "places", f"no place lies where {family.language} is spoken"
    if len(family.places) > 1:
        yield from _giveaways(family, registry)
    for place in family.places:
        asked = "" if place.implied is None else as_text(place.implied)
        if place.culture in registry and names_culture(asked, place.culture):
            yield "places", f"the second wording of '{place.name}' names a culture"
    yield from _form(family)


def _territories(culture: str, registry: Registry) -> list[str]:
    return [region for variety in registry.varieties(culture) for region in variety.regions]


def _is_ambiguous(name: str, language: str) -> bool:
    bare = [known.partition(" ")[2] for known in NAMESAKES if known.startswith(f"{language} ")]
    return any(one in name and _BESIDE.fullmatch(name.replace(one, "").strip()) for one in bare)


def _topics(family: Family, own: list[Fact]) -> Iterator[tuple[str, str]]:
    for fact in own:
        if (fact.topic, fact.domain) != (family.topic, family.domain):
            yield (
                "answers",
                (
                    f"{fact.id} is of {fact.domain.value}/{fact.topic}, not "
                    f"{family.domain.value}/{family.topic}"
                ),
            )
    for place, fact in zip(family.places, own, strict=False):
        if place.culture != fact.culture:
            yield (
                "places",
                f"'{place.name}' is in {place.culture}, but {fact.id} is of {fact.culture}",
            )


def _exclusion(family: Family, own: list[Fact], registry: Registry) -> Iterator[tuple[str, str]]:
    """All ordered pairs of a place and another answer's fact: the other fact must not hold
    there."""
    for fact, other in itertools.permutations(own, 2):
        if own.index(fact) >= len(family.places):
            continue
        parent = registry[fact.culture].parent if fact.culture in registry else None
        if other.value == fact.value:
            yield "answers", f"{other.id} has the value of {fact.id}, '{fact.value}'"
        elif _holds_where(other, fact, parent):
            yield "answers", f"{other.id} holds in {fact.culture} too"


def _holds_where(fact: Fact, other: Fact, parent: str | None) -> bool:
    """Whether a fact holds in the place of another one of its topic, whose culture belongs to
    ``parent``."""
    if fact.culture == other.culture and "-" not in fact.place:
        return True
    return not {other.culture, other.place.lower(), parent}.isdisjoint(fact.also)


def _giveaways(family: Family, registry: Registry) -> Iterator[tuple[str, str]]:
    for answer in family.answers:
        for place in family.places:
            words = [word for word in re.findall(r"[^\W\d_]{4,}", place.name) if word[0].isupper()]
            named = [word for word in words if word in answer.text]
            if named or (place.culture in registry and names_culture(answer.text, place.culture)):
                yield (
                    "answers",
                    (
                        f"the answer of {answer.fact} names a place: {answer.text[:60]!r} "
                        f"({place.culture})"
                    ),
                )
                break


def _form(family: Family) -> Iterator[tuple[str, str]]:
    lengths = [len(answer.text) for answer in family.answers]
    mean = sum(lengths) / len(lengths)
    if max(lengths) > LENGTHS * mean or min(lengths) < mean / LENGTHS:
        yield "answers", f"lengths differ too much: {lengths} characters"
    if family.form != "short":
        unit, sizes = _sizes(family)
        low, high = REPLY_CHARACTERS if unit == "characters" else REPLY_WORDS
        if min(sizes) < low or max(sizes) > high:
            yield "answers", f"a reply has {low} to {high} {unit}, these have {sizes}"


def _sizes(family: Family) -> tuple[str, list[int]]:
    """The unit in which answers are measured, and the size of each."""
    if _base(family.language) in check_texts.UNSPACED:
        return "characters", [len(answer.text) for answer in family.answers]
    return "words", [len(answer.text.split()) for answer in family.answers]


def _kinds(bank: Bank) -> Iterator[str]:
    """How many families are of each kind and cell, how many have a second wording, and which pages
    the facts have."""
    facts, families = bank.by_id, [line.content for line in bank.families]
    kinds = Counter(_kind(family, facts).value for family in families)
    counts = ", ".join(f"{name} {n}" for name, n in kinds.most_common())
    yield f"families and single sets by kind: {counts}"
    implied = sum(f.places[0].implied is not None for f in families)
    yield f"with a second wording that implies the place: {implied}"
    pages = Counter(line.content.evidence or "unsaid" for line in bank.facts)
    yield f"facts by their pages: {', '.join(f'{name} {n}' for name, n in pages.most_common())}"
    second = sum(line.content.second_source is not None for line in bank.facts)
    yield f"facts with a second page: {second}"
    reread = sum("reread" in line.content.checked for line in bank.facts)
    yield f"facts that a second reader found: {reread}"
    cells = Counter(
        (_base(family.language), family.domain.value)
        for family in families
        if _kind(family, facts) is not Kind.WORD
        and family.id == check_texts.source_item(family)
        and len(family.places) > 1
    )
    for language in sorted({language for language, _ in cells}):
        row = ", ".join(f"{domain.value} {cells[language, domain.value]}" for domain in Domain)
        yield f"families but for words, replies and traditional script: {language}: {row}"


def _kind(family: Family, facts: Mapping[str, Fact]) -> Kind:
    return family.kind or facts[family.answers[0].fact].kind


def main(folder: Path | None = None, language: str | None = None) -> int:
    """Print every problem of a folder, and what is in it; 1 where there are problems.

    Args:
        folder: The folder of a bank; null is the seed's.
        language: the language whose texts are checked; null is all of them.
    """
    problems: list[Problem] = []
    bank = read_bank(folder or seed_folders()[SEED], problems)
    problems += check_bank(bank, today=datetime.now(UTC).date())
    texts = check_texts.problems(bank, language)
    if language is not None:
        sys.stdout.writelines(f"look: {one}\n" for one in check_texts.looks(bank, language))
    sys.stdout.writelines(f"{one}\n" for one in (*texts, *problems))
    sys.stdout.writelines(f"{line}\n" for line in _kinds(bank))
    used = {answer.fact for line in bank.families for answer in line.content.answers}
    families = [line.content for line in bank.families]
    main_sets = sum(
        is_main(place.culture, one.language) for one in families for place in one.places
    )
    sys.stdout.write(
        f"{len(bank.facts)} facts, {len(used)} of them used by families, "
        f"{sum(len(f.places) > 1 for f in families)} "
        f"families, {main_sets} main sets, "
        f"{sum(len(f.places) for f in families) - main_sets} mirrors; "
        f"{len(problems)} problems of the bank, {len(texts)} of texts\n"
    )
    return int(bool(problems or texts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--language")
    given = parser.parse_args()
    sys.exit(main(given.folder, given.language))
