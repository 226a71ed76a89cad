"""The rules of declared sources: from records to right and wrong answers, without any source's own
code."""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import combinations, pairwise

from carb_data.declaration import (
    Condition,
    Contrast,
    Mirrored,
    OptionsAsGiven,
    Part,
    Record,
    Skip,
    fill,
    order_key,
)
from carb_data.given import Given, TieError, read_record
from carb_data.keys import System
from carb_data.overlap import plain
from carb_data.values import UnreadError

__all__ = ["Made", "apply"]

_WRONG = 3
_ANSWERS = _WRONG + 1
"""Answers of a set that a rule draws from other items."""
_COMMON, _TELLING = 0.03, 0.01
"""Share of answers above which a word or a pair of characters is no content, and tells no
answer."""
_STEM = 5
"""Letters by which words are compared, so that forms of one word are one."""
_WHOLE_SCRIPTS = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_SCANNED = 400
"""How many candidates are tried for the places in a family before its first item is given up."""


@dataclass(frozen=True)
class Item:
    """A record that can be an answer."""

    number: str
    record: Record
    text: str
    label: str = ""

    @cached_property
    def plain(self) -> str:
        """The answer as it is compared."""
        return plain(self.text)


@dataclass(frozen=True)
class Made:
    """A set to be: who asks what, and the answers, the right one first."""

    asked: Item
    prompt: str
    answers: tuple[str, ...]
    keys: tuple[str, ...]
    """Items that a split must keep together with each other."""
    family: str | None = None


def apply(
    part: Part, records: Sequence[tuple[str, Record | str]], seed: int
) -> Iterator[Made | Skip]:
    """Make what the part's rule makes of its records.

    Args:
        part: The part of the declaration whose rule is applied.
        records: number and record, or why an entry is none.
        seed: drives every random choice; the order of ``records`` drives none.
    """
    rule, sound = part.make, []
    for number, record in records:
        if isinstance(record, str):
            yield Skip(source_id=number, reason=record)
        elif isinstance(rule, OptionsAsGiven):
            sound.append(Item(number, record, "", fill(rule.label, record)))
        else:
            item = Item(number, record, fill(rule.answer, record), fill(rule.label, record))
            reason = _unfit(part, item)
            if reason is None:
                sound.append(item)
            else:
                yield Skip(source_id=number, reason=reason)
    if isinstance(rule, OptionsAsGiven):
        yield from _options(part, rule, sound, seed)
    elif isinstance(rule, Contrast):
        yield from _contrast(part, rule, sound, seed)
    else:
        yield from _mirrored(part, rule, sound, seed)


# options as given


def _options(
    part: Part, rule: OptionsAsGiven, items: Sequence[Item], seed: int
) -> Iterator[Made | Skip]:
    made: list[Made] = []
    for item in items:
        try:
            given = read_record(rule, item.record, System(rule.first))
            reason = _unlike(part, rule, given)
        except TieError:
            reason = "it says that no answer is better"
        except UnreadError as error:
            field, why = error.defects[0]
            reason = "the key names no option" if field == "answer" else f"{field}: {why}"
        if reason is not None:
            yield Skip(source_id=item.number, reason=reason)
            continue
        prompt = given.asked
        keys = (fill(part.split, item.record) or plain(prompt), f"text: {plain(prompt)}")
        made.append(Made(item, prompt, (*given.right, *given.wrong), keys))
    surplus = _surplus(made, seed) if rule.balance else set()
    for one in made:
        if one.asked.number in surplus:
            yield Skip(
                source_id=one.asked.number,
                reason="left out for balance: the length of the right option tells it",
            )
        else:
            yield one


def _unlike(part: Part, rule: OptionsAsGiven, given: Given) -> str | None:
    """Why the answers of a record make no fair set, or None."""
    answers = (*given.right, *given.wrong)
    if len({plain(answer) or answer for answer in answers}) < len(answers):
        return "two options are the same"
    if any(_alike(one, other) >= rule.apart for one, other in combinations(given.wrong, 2)):
        return "two wrong options are nearly the same, so that the right one is the odd one out"
    if part.forbid is not None and any(
        part.forbid.search(text) for text in (given.asked, *answers)
    ):
        return "the question or an option holds what is blocked"
    return None


def _alike(one: str, other: str) -> float:
    first, second = (set(pairwise(text.casefold())) for text in (one, other))
    return len(first & second) / max(1, len(first | second))


def _surplus(made: Sequence[Made], seed: int) -> set[str]:
    """Sets to leave out until the longest and the shortest answer are right no more often than by
    chance."""
    out: set[str] = set()
    for sign in (1, -1):
        kept = [one for one in made if one.asked.number not in out]
        told = [
            o for o in kept if all(sign * len(o.answers[0]) > sign * len(w) for w in o.answers[1:])
        ]
        rest = len(kept) - len(told)
        chance = sum(1 / len(one.answers) for one in kept) / max(1, len(kept))
        random.Random(f"balance:{seed}:{sign}").shuffle(told)
        if chance < 1:
            out.update(one.asked.number for one in told[int(rest * chance / (1 - chance)) :])
    return out


# one of a class among others of another


def _contrast(
    part: Part, rule: Contrast, items: Sequence[Item], seed: int
) -> Iterator[Made | Skip]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[fill(rule.group, item.record)].append(item)
    for name, members in sorted(groups.items()):
        for block in _blocks(part, rule, members, seed):
            right = _of_class(rule.right, block, seed)
            wrong = _of_class(rule.wrong, block, seed)
            random_ = random.Random(
                f"{part.name}:{seed}:{name}:{min(item.number for item in block)}"
            )
            yield from _draw(part, rule, right, wrong, random_)


def _blocks(part: Part, rule: Contrast, members: Sequence[Item], seed: int) -> list[list[Item]]:
    count = max(1, len(members) // rule.block) if rule.block else 1
    blocks: dict[int, list[Item]] = defaultdict(list)
    for item in members:
        digest = sha256(f"{seed}\0{_template(part, item)}".encode()).digest()
        blocks[int.from_bytes(digest[:4], "big") % count].append(item)
    return [blocks[n] for n in sorted(blocks)]


def _of_class(conditions: Sequence[Condition], items: Sequence[Item], seed: int) -> list[Item]:
    found = [
        item for item in items if all(condition.holds(item.record) for condition in conditions)
    ]
    return sorted(found, key=lambda item: order_key(seed, item.number))


def _draw(
    part: Part, rule: Contrast, right: list[Item], wrong: list[Item], random_: random.Random
) -> Iterator[Made | Skip]:
    while right and wrong:
        turned = bool(rule.reverse) and len(right) > len(wrong)
        ones, others = (wrong, right) if turned else (right, wrong)
        one = ones.pop(0)
        near = fill(rule.near, one.record)
        ranked = [item for item in others if item.plain != one.plain]
        if rule.near:
            ranked.sort(key=lambda item: fill(rule.near, item.record) != near)
        distinct = list({item.plain: item for item in reversed(ranked)}.values())[::-1]
        three = _of_mixed_length(len(one.text), distinct, _WRONG, random_)
        if len(three) < _WRONG:
            yield Skip(
                source_id=one.number,
                reason=f"fewer than {_WRONG} items of the other class are left in its group",
            )
        else:
            for used in three:
                others.remove(used)
            prompt = fill(rule.reverse, one.record) if turned else _question(part, one)
            keys = tuple(_template(part, item) for item in (one, *three))
            yield Made(one, prompt, tuple(item.text for item in (one, *three)), keys)
    for item in (*right, *(wrong if rule.reverse else ())):
        yield Skip(
            source_id=item.number, reason="no items of the other class are left in its group"
        )


def _of_mixed_length(
    own: int, ranked: Sequence[Item], count: int, random_: random.Random
) -> list[Item]:
    """Choose ``count`` of ``ranked``, best first, so that the length of the right answer tells
    nothing.

    How many of the chosen are longer than the right answer, which has ``own`` characters, is drawn
    evenly from 0 to ``count``, as far as there are enough of either: neither the longest nor the
    shortest nor the middle answer is right more often than by chance.
    """
    longer = [other for other in ranked if len(other.text) > own]
    others = [other for other in ranked if len(other.text) <= own]
    wanted = random_.randint(0, count)
    wanted = max(min(wanted, len(longer)), count - len(others))
    return [*longer[:wanted], *others[: count - wanted]][:count]


# families: items asked about in turn, with the same answers each time


def _mirrored(
    part: Part, rule: Mirrored, items: Sequence[Item], seed: int
) -> Iterator[Made | Skip]:
    """Make families of items whose answers differ in content and are of like length."""
    units = {item.number: _units(item.text) for item in items}
    common, dull = _common(units.values(), _COMMON), _common(units.values(), _TELLING)
    groups: dict[str, list[Item]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for item in sorted(items, key=lambda item: order_key(seed, item.number)):
        prompt = _question(part, item)
        if (item.plain, item.label) in seen or (prompt, "") in seen:
            yield Skip(source_id=item.number, reason="its answer or its question is a repetition")
        elif not prompt:
            yield Skip(source_id=item.number, reason="the question is empty")
        elif rule.hidden and (_units(fill(rule.hidden, item.record)) & _units(item.text)) - dull:
            yield Skip(source_id=item.number, reason="the answer shares a word with the question")
        else:
            groups[fill(rule.group, item.record)].append(item)
            seen |= {(item.plain, item.label)} | ({(prompt, "")} if not rule.label else set())
    for _, members in sorted(groups.items()):
        content = {item.number: units[item.number] - common for item in members}
        yield from _families(part, rule, members, content, seed)


def _families(
    part: Part,
    rule: Mirrored,
    members: Sequence[Item],
    content: Mapping[str, frozenset[str]],
    seed: int,
) -> Iterator[Made | Skip]:
    free = {item.number: item for item in members}
    for item in members:
        if free.pop(item.number, None) is None:
            continue
        family = [item]
        for other in list(free.values())[:_SCANNED]:
            if len(family) == _ANSWERS:
                break
            if _fits(rule, other, family, content):
                family.append(free.pop(other.number))
        if len(family) == _ANSWERS:
            yield from _asked_in_turn(part, family, seed)
        else:
            free.update({other.number: other for other in family[1:]})
            yield Skip(
                source_id=item.number,
                reason="too few others have an answer of like length and other content",
            )


def _fits(
    rule: Mirrored, item: Item, family: Sequence[Item], content: Mapping[str, frozenset[str]]
) -> bool:
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
    shown = sorted(family, key=lambda one: order_key(seed, "family", one.number))
    keys = tuple(_template(part, one) for one in shown)
    for one in shown:
        answers = (one.text, *(other.text for other in shown if other is not one))
        yield Made(one, _question(part, one), answers, keys, family=name)


def _units(text: str) -> frozenset[str]:
    """What a text is about: stems of its words; pairs of characters where a script writes no
    spaces."""
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


# what the rules share


def _unfit(part: Part, item: Item) -> str | None:
    """Why a record can be no answer, or None."""
    if not item.plain or "\ufffd" in item.text:
        return "the answer says nothing"
    if not part.shortest <= len(item.text) <= part.longest:
        return "the answer is too short or too long"
    if part.forbid is not None and part.forbid.search(item.text):
        return "the answer holds what is blocked"
    return None


def _question(part: Part, item: Item) -> str:
    """What is asked where the item is the right answer."""
    return fill(part.make.prompt, item.record)


def _template(part: Part, item: Item) -> str:
    """What a split keeps together: the item's template, or the item alone."""
    return fill(part.split, item.record) if part.split else item.number
