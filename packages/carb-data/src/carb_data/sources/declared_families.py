"""The rule that makes families: items asked about in turn, with the same answers each time."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from carb_data.sources.declaration import Mirrored, Part
from carb_data.sources.declared_items import Item, Left, Made, digest, question
from carb_data.sources.declared_records import fill

__all__ = ["mirrored"]

_COMMON, _TELLING = 0.03, 0.01
"""Share of answers above which a word or a pair of characters is no content, and gives no answer away."""
_STEM = 5
"""Letters by which words are compared, so that forms of one word are one."""
_WHOLE_SCRIPTS = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_SCANNED = 400
"""How many candidates are tried for the places in a family before its first item is given up."""


def mirrored(part: Part, rule: Mirrored, items: Sequence[Item], seed: int) -> Iterator[Made | Left]:
    """Make families of items whose answers differ in content and are of like length.

    Args:
        part: The part of the declaration to which the rule belongs.
        rule: size of a family, and what keeps items apart.
        items: those that can be answers.
        seed: decides which come together.
    """
    texts = {
        item.number: [fill(template, item.record) for template in rule.content or (rule.answer,)] for item in items
    }
    units = {number: frozenset[str]().union(*map(_units, own)) for number, own in texts.items()}
    common, dull = _common(units.values(), _COMMON), _common(units.values(), _TELLING)
    groups: dict[str, list[Item]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for item in sorted(items, key=lambda item: digest(seed, item.number)):
        prompt = question(part, item)
        if (item.plain, item.label) in seen or (prompt, "") in seen:
            yield Left(item.number, "its answer or its question is a repetition")
        elif not prompt:
            yield Left(item.number, "the question is empty")
        elif rule.hidden and (_units(fill(rule.hidden, item.record)) & _units(item.text)) - dull:
            yield Left(item.number, "the answer shares a word with the question")
        else:
            groups[fill(rule.group, item.record)].append(item)
            seen |= {(item.plain, item.label)} | ({(prompt, "")} if not rule.label else set())
    for _, members in sorted(groups.items()):
        content = {item.number: units[item.number] - common for item in members}
        yield from _families(part, rule, members, content, seed)


def _families(
    part: Part, rule: Mirrored, members: Sequence[Item], content: Mapping[str, frozenset[str]], seed: int
) -> Iterator[Made | Left]:
    free = {item.number: item for item in members}
    near = _Near(rule, members)
    for item in members:
        if free.pop(item.number, None) is None:
            continue
        family = [item]
        for other in (*near.to(item), *list(free.values())[:_SCANNED]):
            if len(family) == rule.size:
                break
            if other.number in free and _fits(rule, other, family, content):
                family.append(free.pop(other.number))
        if len(family) == rule.size:
            yield from _asked_in_turn(part, family, seed)
        else:
            free.update({other.number: other for other in family[1:]})
            yield Left(item.number, "too few others have an answer of like length and other content")


def _fits(rule: Mirrored, item: Item, family: Sequence[Item], content: Mapping[str, frozenset[str]]) -> bool:
    lengths = [len(one.text) for one in (item, *family)]
    return max(lengths) <= rule.ratio * min(lengths) and all(
        item.plain not in other.plain
        and other.plain not in item.plain
        and content[item.number].isdisjoint(content[other.number])
        and (not rule.label or item.label != other.label)
        for other in family
    )


def _asked_in_turn(part: Part, family: Sequence[Item], seed: int) -> Iterator[Made]:
    name = min(one.number for one in family)
    shown = sorted(family, key=lambda one: digest(seed, "family", one.number))
    keys = tuple(fill(part.split, one.record) if part.split else one.number for one in shown)
    for one in shown:
        answers = (one.text, *(other.text for other in shown if other is not one))
        yield Made(one, question(part, one), answers, keys, family=name)


class _Near:
    """Items that share a word or a character, the rarest first."""

    def __init__(self, rule: Mirrored, members: Sequence[Item]) -> None:
        self._units = {i.number: _units(fill(rule.near, i.record)) if rule.near else frozenset[str]() for i in members}
        self._having: dict[str, list[Item]] = defaultdict(list)
        for item in members:
            for unit in self._units[item.number]:
                self._having[unit].append(item)

    def to(self, item: Item) -> list[Item]:
        """The items that share something with ``item``, itself among them."""
        rare = sorted(self._units[item.number], key=lambda unit: (len(self._having[unit]), unit))
        return [other for unit in rare for other in self._having[unit][:_SCANNED]]


def _units(text: str) -> frozenset[str]:
    """What a text is about: stems of its words; pairs of characters where a script writes no spaces."""
    words = re.findall(r"[^\W\d_]+", unicodedata.normalize("NFKC", text).casefold())
    found: set[str] = set()
    for word in words:
        if _WHOLE_SCRIPTS.search(word):
            found.update(first + second for first, second in pairwise(word))
        elif len(word) > 2:
            found.add(word[:_STEM])
    return frozenset(found)


def _common(units: Collection[frozenset[str]], share: float) -> frozenset[str]:
    counted = Counter(unit for one in units for unit in one)
    return frozenset(unit for unit, n in counted.items() if n > max(3, share * len(units)))
