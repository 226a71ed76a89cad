"""The rules of declared sources: from records to right and wrong answers, without any source's own code."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import combinations, pairwise

from carb_data.sources.declaration import Condition, Contrast, OptionsAsGiven, Part
from carb_data.sources.declared_families import mirrored
from carb_data.sources.declared_items import Item, Left, Made, digest, question, unfit
from carb_data.sources.declared_records import Record, fill
from carb_data.sources.grouping import of_mixed_length, plain

__all__ = ["Left", "Made", "apply"]


def apply(part: Part, records: Sequence[tuple[str, Record | str]], seed: int) -> Iterator[Made | Left]:
    """Make what the part's rule makes of its records.

    Args:
        part: The part of the declaration whose rule is applied.
        records: number and record, or why an entry is none.
        seed: drives every random choice; the order of ``records`` drives none.
    """
    rule, sound = part.make, []
    for number, record in records:
        if isinstance(record, str):
            yield Left(number, record)
        elif isinstance(rule, OptionsAsGiven):
            sound.append(Item(number, record, "", fill(rule.label, record)))
        else:
            item = Item(number, record, fill(rule.answer, record), fill(rule.label, record))
            reason = unfit(part, item)
            if reason is None:
                sound.append(item)
            else:
                yield Left(number, reason)
    if isinstance(rule, OptionsAsGiven):
        yield from _options(part, rule, sound, seed)
    elif isinstance(rule, Contrast):
        yield from _contrast(part, rule, sound, seed)
    else:
        yield from mirrored(part, rule, sound, seed)


# options as given


def _options(part: Part, rule: OptionsAsGiven, items: Sequence[Item], seed: int) -> Iterator[Made | Left]:
    made: list[Made] = []
    for item in items:
        answers = _right_first(rule, item.record)
        prompt = question(part, item)
        reason = answers if isinstance(answers, str) else _wrong_with(part, rule, prompt, answers)
        if reason is not None:
            yield Left(item.number, reason)
        else:
            keys = (fill(part.split, item.record) or plain(prompt), f"text: {plain(prompt)}")
            made.append(Made(item, prompt, tuple(answers), keys))
    surplus = _surplus(made, seed) if rule.balance else set()
    for one in made:
        if one.asked.number in surplus:
            yield Left(one.asked.number, "left out for balance: the length of the right option tells it")
        else:
            yield one


def _right_first(rule: OptionsAsGiven, record: Record) -> list[str] | str:
    texts = {key: record.get(field, "") for key, field in zip(rule.keys or rule.options, rule.options, strict=True)}
    right = record.get(rule.key, "") if rule.key else next(iter(texts))
    if not texts.get(right):
        return "the key names no option"
    others = [record.get(rule.wrong, "")] if rule.wrong else [key for key in texts if key != right]
    wrong = [texts[key] for key in others if texts.get(key)]
    return [texts[right], *wrong] if wrong else "there is no wrong option"


def _wrong_with(part: Part, rule: OptionsAsGiven, prompt: str, answers: Sequence[str]) -> str | None:
    if not prompt:
        return "the question is empty"
    if len({plain(answer) or answer for answer in answers}) < len(answers):
        return "two options are the same"
    if any(_alike(one, other) >= rule.apart for one, other in combinations(answers[1:], 2)):
        return "two wrong options are nearly the same, so that the right one is the odd one out"
    if part.forbid is not None and any(re.search(part.forbid, text) for text in (prompt, *answers)):
        return "the question or an option holds what is blocked"
    return None


def _alike(one: str, other: str) -> float:
    first, second = (set(pairwise(text.casefold())) for text in (one, other))
    return len(first & second) / max(1, len(first | second))


def _surplus(made: Sequence[Made], seed: int) -> set[str]:
    """Sets to leave out until the longest and the shortest answer are right no more often than by chance."""
    out: set[str] = set()
    for sign in (1, -1):
        kept = [one for one in made if one.asked.number not in out]
        told = [o for o in kept if all(sign * len(o.answers[0]) > sign * len(w) for w in o.answers[1:])]
        rest = len(kept) - len(told)
        chance = sum(1 / len(one.answers) for one in kept) / max(1, len(kept))
        random.Random(f"balance:{seed}:{sign}").shuffle(told)
        if chance < 1:
            out.update(one.asked.number for one in told[int(rest * chance / (1 - chance)) :])
    return out


# one of a class among others of another


def _contrast(part: Part, rule: Contrast, items: Sequence[Item], seed: int) -> Iterator[Made | Left]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[fill(rule.group, item.record)].append(item)
    for name, members in sorted(groups.items()):
        for block in _blocks(part, rule, members, seed):
            right = _of_class(rule.right, block, seed)
            wrong = _of_class(rule.wrong, block, seed)
            random_ = random.Random(f"{part.name}:{seed}:{name}:{min(item.number for item in block)}")
            yield from _draw(part, rule, right, wrong, random_)


def _blocks(part: Part, rule: Contrast, members: Sequence[Item], seed: int) -> list[list[Item]]:
    count = max(1, len(members) // rule.block) if rule.block else 1
    blocks: dict[int, list[Item]] = defaultdict(list)
    for item in members:
        key = fill(part.split, item.record) if part.split else item.number
        blocks[int.from_bytes(sha256(f"{seed}\0{key}".encode()).digest()[:4], "big") % count].append(item)
    return [blocks[n] for n in sorted(blocks)]


def _of_class(conditions: Sequence[Condition], items: Sequence[Item], seed: int) -> list[Item]:
    found = [item for item in items if all(condition.holds(item.record) for condition in conditions)]
    return sorted(found, key=lambda item: digest(seed, item.number))


def _draw(
    part: Part, rule: Contrast, right: list[Item], wrong: list[Item], random_: random.Random
) -> Iterator[Made | Left]:
    while right and wrong:
        turned = bool(rule.reverse) and len(right) > len(wrong)
        ones, others = (wrong, right) if turned else (right, wrong)
        one = ones.pop(0)
        near = fill(rule.near, one.record)
        ranked = [item for item in others if item.plain != one.plain]
        if rule.near:
            ranked.sort(key=lambda item: fill(rule.near, item.record) != near)
        three = _distinct(of_mixed_length(len(one.text), _distinct(ranked), lambda i: len(i.text), rule.count, random_))
        if len(three) < rule.count:
            yield Left(one.number, f"fewer than {rule.count} items of the other class are left in its group")
        else:
            for used in three:
                others.remove(used)
            prompt = fill(rule.reverse, one.record) if turned else question(part, one)
            keys = tuple(fill(part.split, i.record) if part.split else i.number for i in (one, *three))
            yield Made(one, prompt, tuple(i.text for i in (one, *three)), keys)
    for item in (*right, *(wrong if rule.reverse else ())):
        yield Left(item.number, "no items of the other class are left in its group")


def _distinct(items: Sequence[Item]) -> list[Item]:
    return list({item.plain: item for item in reversed(items)}.values())[::-1]
