"""The rules of declared sources: from records to right and wrong answers, without any source's own
code."""

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, pairwise

from carb_data.declaration import (
    Condition,
    Contrast,
    Mirrored,
    OptionsAsGiven,
    Part,
    Record,
    Skip,
    all_hold,
    fill,
    order_key,
)
from carb_data.given import Given, TieError, read_record
from carb_data.keys import System
from carb_data.overlap import plain
from carb_data.values import UnreadError

_WRONG = 3
_ANSWERS = _WRONG + 1
"""Answers of a set that a rule draws from other items."""
_COMMON = 0.03
_TELLING = 0.01
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
    """Apply the part's rule to its records.

    Args:
        part: The part of the declaration whose rule is applied.
        records: number and record, or why an entry is none.
        seed: drives every random choice; the order of ``records`` drives none.
    """
    rule = part.make
    sound = []
    for number, record in records:
        if isinstance(record, str):
            yield Skip(source_id=number, reason=record)
            continue
        label = fill(rule.label, record)
        if isinstance(rule, OptionsAsGiven):
            sound.append(Item(number, record, "", label))
            continue
        item = Item(number, record, fill(rule.answer, record), label)
        reason = _unfit(part, item)
        if reason is None:
            sound.append(item)
        else:
            yield _skip(item, reason)
    if isinstance(rule, OptionsAsGiven):
        yield from _options(part, rule, sound, seed)
    elif isinstance(rule, Contrast):
        yield from _contrast(part, rule, sound, seed)
    else:
        yield from _mirrored(part, rule, sound, seed)


def _skip(item: Item, reason: str) -> Skip:
    return Skip(source_id=item.number, reason=reason)


# options as given


def _options(
    part: Part,
    rule: OptionsAsGiven,
    items: Sequence[Item],
    seed: int,
) -> Iterator[Made | Skip]:
    made = []
    for item in items:
        try:
            given = read_record(rule, item.record, System(rule.first))
            reason = _unlike(part, rule, given)
        except TieError:
            reason = "it says that no answer is better"
        except UnreadError as error:
            field, why = error.defects[0]
            reason = f"{field}: {why}"
            if field == "answer":
                reason = "the key names no option"
        if reason is not None:
            yield _skip(item, reason)
            continue
        words = plain(given.asked)
        split = fill(part.split, item.record) or words
        keys = (split, f"text: {words}")
        answers = (*given.right, *given.wrong)
        made.append(Made(item, given.asked, answers, keys))
    surplus: set[str] = set()
    if rule.balance:
        surplus = _surplus(made, seed)
    for one in made:
        if one.asked.number in surplus:
            reason = "left out for balance: the length of the right option tells it"
            yield _skip(one.asked, reason)
        else:
            yield one


def _unlike(part: Part, rule: OptionsAsGiven, given: Given) -> str | None:
    """Why the answers of a record make no fair set, or None."""
    answers = (*given.right, *given.wrong)
    distinct = {plain(answer) or answer for answer in answers}
    if len(distinct) < len(answers):
        return "two options are the same"
    for one, other in combinations(given.wrong, 2):
        if _alike(one, other) >= rule.apart:
            return "two wrong options are nearly the same, so that the right one is the odd one out"
    if any(_is_blocked(part, text) for text in (given.asked, *answers)):
        return "the question or an option holds a blocked text"
    return None


def _alike(one: str, other: str) -> float:
    first = {*pairwise(one.casefold())}
    second = {*pairwise(other.casefold())}
    either = first | second
    return len(first & second) / max(1, len(either))


def _surplus(made: Sequence[Made], seed: int) -> set[str]:
    """Sets to leave out until the longest and the shortest answer are right no more often than by
    chance."""
    out = set()
    for sign in (1, -1):
        kept = [one for one in made if one.asked.number not in out]
        told = [one.asked.number for one in kept if _is_extreme(one.answers, sign)]
        rest = len(kept) - len(told)
        shares = [1 / len(one.answers) for one in kept]
        chance = 0.0
        if kept:
            chance = sum(shares) / len(kept)
        if chance == 1:
            continue
        fair = int(rest * chance / (1 - chance))
        random.Random(f"balance:{seed}:{sign}").shuffle(told)
        out.update(told[fair:])
    return out


def _is_extreme(answers: Sequence[str], sign: int) -> bool:
    """Whether the first answer alone is the longest, or with a negative sign the shortest."""
    first, *others = (sign * len(answer) for answer in answers)
    return all(first > other for other in others)


# one of a class among others of another


def _contrast(
    part: Part,
    rule: Contrast,
    items: Sequence[Item],
    seed: int,
) -> Iterator[Made | Skip]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[fill(rule.group, item.record)].append(item)
    for name, members in sorted(groups.items()):
        for block in _blocks(part, rule, members, seed):
            right = _of_class(rule.right, block, seed)
            wrong = _of_class(rule.wrong, block, seed)
            first = min(item.number for item in block)
            random_ = random.Random(f"{part.name}:{seed}:{name}:{first}")
            yield from _draw(part, rule, right, wrong, random_)


def _blocks(
    part: Part,
    rule: Contrast,
    members: Sequence[Item],
    seed: int,
) -> list[list[Item]]:
    count = 1
    if rule.block:
        count = max(1, len(members) // rule.block)
    blocks: dict[int, list[Item]] = defaultdict(list)
    for item in members:
        digest = order_key(seed, _template(part, item))
        number = int.from_bytes(digest[:4], "big")
        blocks[number % count].append(item)
    return [blocks[number] for number in sorted(blocks)]


def _of_class(conditions: Sequence[Condition], items: Sequence[Item], seed: int) -> list[Item]:
    members = [item for item in items if all_hold(conditions, item.record)]
    members.sort(key=lambda item: order_key(seed, item.number))
    return members


def _draw(
    part: Part,
    rule: Contrast,
    right: list[Item],
    wrong: list[Item],
    random_: random.Random,
) -> Iterator[Made | Skip]:
    while right and wrong:
        ones = right
        others = wrong
        prompt = rule.prompt
        if rule.reverse and len(right) > len(wrong):
            ones = wrong
            others = right
            prompt = rule.reverse
        one = ones.pop(0)
        ranked = _ranked(rule, one, others)
        three = _of_mixed_length(len(one.text), ranked, _WRONG, random_)
        if len(three) < _WRONG:
            yield _skip(one, f"fewer than {_WRONG} items of the other class are left in its group")
            continue
        for used in three:
            others.remove(used)
        shown = (one, *three)
        keys = tuple(_template(part, item) for item in shown)
        answers = tuple(item.text for item in shown)
        yield Made(one, fill(prompt, one.record), answers, keys)
    if rule.reverse:
        right += wrong
    for item in right:
        yield _skip(item, "no items of the other class are left in its group")


def _ranked(rule: Contrast, one: Item, others: Sequence[Item]) -> list[Item]:
    """The other class without repetitions, the items nearest to this one first."""
    ranked = [item for item in others if item.plain != one.plain]
    if rule.near:
        near = fill(rule.near, one.record)
        ranked.sort(key=lambda item: fill(rule.near, item.record) != near)
    distinct = {item.plain: item for item in reversed(ranked)}
    return [*reversed(distinct.values())]


def _of_mixed_length(
    length: int,
    ranked: Sequence[Item],
    count: int,
    random_: random.Random,
) -> list[Item]:
    """Choose ``count`` of ``ranked``, best first, so that the length of the right answer tells
    nothing.

    How many of the chosen are longer than the right answer, which has ``length`` characters, is
    drawn evenly from 0 to ``count``, as far as there are enough of either: neither the longest nor
    the shortest nor the middle answer is right more often than by chance.
    """
    longer = [other for other in ranked if len(other.text) > length]
    others = [other for other in ranked if len(other.text) <= length]
    wanted = random_.randint(0, count)
    wanted = max(min(wanted, len(longer)), count - len(others))
    chosen = longer[:wanted] + others[: count - wanted]
    return chosen[:count]


# families: items asked about in turn, with the same answers each time


def _mirrored(
    part: Part,
    rule: Mirrored,
    items: Sequence[Item],
    seed: int,
) -> Iterator[Made | Skip]:
    """Make families of items whose answers differ in content and are of like length."""
    units = {item.number: _units(item.text) for item in items}
    every = units.values()
    common = _common(every, _COMMON)
    dull = _common(every, _TELLING)
    groups: dict[str, list[Item]] = defaultdict(list)
    seen = set()
    shuffled = sorted(items, key=lambda item: order_key(seed, item.number))
    for item in shuffled:
        prompt = fill(rule.prompt, item.record)
        answer = (item.plain, item.label)
        asked = (prompt, "")
        hidden = fill(rule.hidden, item.record)
        telling = units[item.number] - dull
        if answer in seen or asked in seen:
            yield _skip(item, "its answer or its question is a repetition")
        elif not prompt:
            yield _skip(item, "the question is empty")
        elif not telling.isdisjoint(_units(hidden)):
            yield _skip(item, "the answer shares a word with the question")
        else:
            groups[fill(rule.group, item.record)].append(item)
            seen.add(answer)
            if not rule.label:
                seen.add(asked)
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
            yield from _asked_in_turn(part, rule, family, seed)
            continue
        yield _skip(item, "too few others have an answer of like length and other content")
        for other in family[1:]:
            free[other.number] = other


def _fits(
    rule: Mirrored,
    item: Item,
    family: Sequence[Item],
    content: Mapping[str, frozenset[str]],
) -> bool:
    lengths = [len(one.text) for one in (item, *family)]
    longest = max(lengths)
    if longest > rule.ratio * min(lengths):
        return False
    held = content[item.number]
    for other in family:
        if item.plain in other.plain or other.plain in item.plain:
            return False
        if not held.isdisjoint(content[other.number]):
            return False
        if rule.label and item.label == other.label:
            return False
    return True


def _asked_in_turn(
    part: Part,
    rule: Mirrored,
    family: Sequence[Item],
    seed: int,
) -> Iterator[Made]:
    name = min(one.number for one in family)
    shown = sorted(family, key=lambda one: order_key(seed, "family", one.number))
    keys = tuple(_template(part, one) for one in shown)
    for one in shown:
        others = [other.text for other in shown if other is not one]
        answers = (one.text, *others)
        yield Made(one, fill(rule.prompt, one.record), answers, keys, family=name)


def _units(text: str) -> frozenset[str]:
    """The subject of a text: stems of its words; pairs of characters where a script writes no
    spaces."""
    normal = unicodedata.normalize("NFKC", text)
    words = re.findall(r"[^\W\d_]+", normal.casefold())
    units: set[str] = set()
    for word in words:
        if _WHOLE_SCRIPTS.search(word):
            units.update(map("".join, pairwise(word)))
        elif len(word) > 2:
            units.add(word[:_STEM])
    return frozenset(units)


def _common(units: Collection[frozenset[str]], share: float) -> frozenset[str]:
    counts = Counter(chain.from_iterable(units))
    most = max(3, share * len(units))
    common = [unit for unit, count in counts.items() if count > most]
    return frozenset(common)


# what the rules share


def _unfit(part: Part, item: Item) -> str | None:
    """Why a record can be no answer, or None."""
    if not item.plain or "\ufffd" in item.text:
        return "the answer says nothing"
    if not part.shortest <= len(item.text) <= part.longest:
        return "the answer is too short or too long"
    if _is_blocked(part, item.text):
        return "the answer holds a blocked text"
    return None


def _is_blocked(part: Part, text: str) -> bool:
    return part.forbid is not None and part.forbid.search(text) is not None


def _template(part: Part, item: Item) -> str:
    """The unit that a split keeps together: the item's template, or the item alone."""
    if part.split:
        return fill(part.split, item.record)
    return item.number
