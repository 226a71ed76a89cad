"""The rule ``options``: what a record asks, and which of its answers are right and wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carb_data.declaration import OptionsAsGiven, fill, template_fields
from carb_data.keys import Options, System, place_of, without_letters
from carb_data.tables import Record, plain
from carb_data.values import Answer, Turn, UnreadError, answers, at, text, turns, unpacked

__all__ = ["Given", "TieError", "keys_of", "options_of", "read_record"]


Answers = list[Answer]


class TieError(Exception):
    """A record says that no answer is better."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a record asks, and its answers."""

    prompt: str | list[dict[str, str]]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    lettered: bool = False
    """Whether the options carried letters of their own."""

    @property
    def asked(self) -> str:
        """What is asked as one text."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n\n".join(turn["content"] for turn in self.prompt)


def read_record(rule: OptionsAsGiven, record: Record, system: System) -> Given:
    """Read a record by a rule.

    Raises:
        TieError: it says that no answer is better.
        UnreadError: something is missing, or has no reading or two; all defects at once.
    """
    defects: list[tuple[str, str]] = []
    right: Answers = []
    wrong: Answers = []
    lettered = False
    try:
        if rule.chosen:
            right, wrong = _pair(rule, record)
        elif rule.scores:
            right, wrong = _best(rule, record)
        else:
            right, wrong, lettered = _choice(rule, record, system)
    except UnreadError as error:
        defects += error.defects
    try:
        prompt = _prompt(rule, record, [*right, *wrong])
    except UnreadError as error:
        raise UnreadError(*error.defects, *defects) from None
    if defects:
        raise UnreadError(*defects)
    texts = [answer for answer, _ in right], [answer for answer, _ in wrong]
    _check(rule, *texts)
    return Given(prompt, tuple(texts[0]), tuple(texts[1]), lettered)


def _check(rule: OptionsAsGiven, right: Sequence[str], wrong: Sequence[str]) -> None:
    if len(right) > 1 and not rule.each:
        reason = f"holds {len(right)} right answers, and a set has one; write a row for each"
        raise UnreadError(("chosen", reason))
    if not wrong:
        raise UnreadError(("rejected", "every wrong answer is empty"))
    if len({*right, *wrong}) < len(right) + len(wrong):
        raise UnreadError(("rejected", "two answers are the same"))


def _pair(rule: OptionsAsGiven, record: Record) -> tuple[Answers, Answers]:
    right = [one for path in rule.chosen for one in answers(at(record, path), "chosen")]
    wrong = [one for path in rule.rejected for one in answers(at(record, path), "rejected")]
    if not right:
        raise UnreadError(("chosen", "is empty"))
    return right, wrong


def _best(rule: OptionsAsGiven, record: Record) -> tuple[Answers, Answers]:
    options = [one for path in rule.options for one in answers(at(record, path), "options")]
    scores = at(record, rule.scores) or []
    if len(options) != len(scores) or not options:
        reason = f"{len(scores)} scores do not fit {len(options)} options"
        raise UnreadError((rule.scores, reason))
    try:
        numbers = [float(score) for score in scores]
    except (TypeError, ValueError):
        raise UnreadError((rule.scores, "must be numbers")) from None
    best = max(numbers)
    if numbers.count(best) > 1:
        raise TieError
    right = [options[numbers.index(best)]]
    return right, [option for option in options if option is not right[0]]


def _choice(rule: OptionsAsGiven, record: Record, system: System) -> tuple[Answers, Answers, bool]:
    given, found = options_of(rule, record)
    keys = keys_of(rule, record)
    if any(key in rule.ties for key in keys.values()):
        raise TieError
    places = {name: _place(rule, key, given, system) for name, key in keys.items()}
    if len({*places.values()}) > 1:
        told = " and ".join(f"{name} says {given.texts[n]!r}" for name, n in places.items())
        raise UnreadError(("answer", f"has two readings: {told}"))
    place = next(iter(places.values()))
    bare = without_letters(given) if rule.key else None
    if bare is not None:
        found = [(short, before) for short, (_, before) in zip(bare.texts, found, strict=True)]
    others: Sequence[int] = range(len(found))
    if rule.wrong:
        others = [_place(rule, text(at(record, rule.wrong), "wrong"), given, system)]
    wrong = [found[n] for n in others if n != place and found[n][0]]
    return [found[place]], wrong, bare is not None


def _place(rule: OptionsAsGiven, key: str, given: Options, system: System) -> int:
    """Which option is right; the first where there is no key."""
    if rule.keys:
        for place, keys in enumerate(rule.keys):
            if key and key in keys.split("|") and "".join(given.texts[place : place + 1]):
                return place
        raise UnreadError(("answer", f"'{key}' is none of the options"))
    return place_of(key, given, system, "answer") if rule.key else 0


def options_of(rule: OptionsAsGiven, record: Record) -> tuple[Options, Answers]:
    """The options of a record, by place: empty ones keep their place."""
    names: list[str] = []
    found: Answers = []
    for path in rule.options:
        value = unpacked(at(record, path))
        if isinstance(value, Mapping) and isinstance(value.get("text"), list):
            value = dict(zip(value.get("label", value["text"]), value["text"], strict=False))
        if isinstance(value, Mapping) and turns(value) is None:
            names += [plain(str(name)) for name in value]
            entries = [*value.values()]
        elif isinstance(value, list) and turns(value) is None:
            entries = value
        else:
            names.append("|".join(plain(one.rpartition(".")[2]) for one in path.split("|")))
            entries = [value]
        found += [(answers(entry, "options") or [("", ())])[0] for entry in entries]
    if len(names) != len(found):
        names = []
    return Options(tuple(option for option, _ in found), tuple(names)), found


def keys_of(rule: OptionsAsGiven, record: Record) -> dict[str, str]:
    """The key of a record, by the column that holds it; several people's keys are one where they
    agree, else a tie.

    Raises:
        TieError: they do not agree.
    """
    value = at(record, rule.key) if rule.key else None
    if isinstance(value, Mapping) and not {"rank", "value"} <= {*value}:
        return {name: text(key, name) for name, key in value.items()}
    keys = {text(_best_ranked(one), "answer") for one in _flat(value)} - {""}
    if len(keys) > 1:
        raise TieError
    return {"answer": next(iter(keys), "")}


def _flat(value: Any) -> list[Any]:
    value = value if not isinstance(value, str) else unpacked(value)
    if isinstance(value, list):
        return [inner for entry in value for inner in _flat(entry)]
    return [value]


def _best_ranked(value: Any) -> Any:
    """Of a ranking (Argilla's ``rank`` and ``value``), the one at its top."""
    if isinstance(value, Mapping) and {"rank", "value"} <= {*value}:
        ranks = value["rank"]
        if not isinstance(ranks, list):
            return value["value"]
        if not ranks or ranks.count(min(ranks)) > 1:
            raise TieError
        return value["value"][ranks.index(min(ranks))]
    return value


# what is asked


def _prompt(
    rule: OptionsAsGiven, record: Record, found: Sequence[Answer]
) -> str | list[dict[str, str]]:
    histories = {before for _, before in found if before}
    if len(histories) > 1:
        raise UnreadError(("rejected", "follows another conversation than the right answer"))
    merged = _merged(list(next(iter(histories), ())), _asked(rule, record))
    turned = _with_context(rule, record, merged)
    system = text(at(record, rule.system), "system") if rule.system else ""
    if system and turned and turned[0][0] != "system":
        turned.insert(0, ("system", system))
    if not turned:
        raise UnreadError(("prompt", "is empty"))
    if len(turned) == 1 and turned[0][0] == "user":
        return turned[0][1]
    return [{"role": role, "content": content} for role, content in turned]


def _merged(history: list[Turn], asked: list[Turn]) -> list[Turn]:
    """The turns before the answers, which begin with the question's own field."""
    if not history or not asked:
        return history or asked
    words, own = ([t for t in said if t[0] != "system"] for said in (history, asked))
    if words[: len(own)] != own:
        raise UnreadError(("prompt", "is not the beginning of the conversation in the answers"))
    systems = [turn for turn in (*history, *asked) if turn[0] == "system"]
    return [*systems[:1], *words]


def _asked(rule: OptionsAsGiven, record: Record) -> list[Turn]:
    """The turns of the question's own field."""
    fields = template_fields(rule.prompt)
    if rule.prompt == f"{{{''.join(fields)}}}":
        raw = at(record, fields[0])
        found = turns(unpacked(raw))
        if found is not None:
            return found
        whole = text(raw, "prompt")
    else:
        texts = {field: text(at(record, field), field) for field in fields}
        whole = fill(rule.prompt, texts)
    after = text(at(record, rule.after), rule.after) if rule.after else ""
    whole = "\n".join(filter(None, (whole, after)))
    return [("user", whole)] if whole else []


def _with_context(rule: OptionsAsGiven, record: Record, asked: list[Turn]) -> list[Turn]:
    """The question with what stands before it."""
    before: list[Turn] = []
    texts: list[str] = []
    for path in rule.context:
        value = unpacked(at(record, path))
        conversation = turns(value) or _pairs(value)
        if conversation:
            before += conversation
        else:
            texts += _context_texts(value, path)
    if asked and asked[-1][0] == "user":
        asked = [*asked[:-1], ("user", "\n\n".join([*texts, asked[-1][1]]))]
    elif texts:
        asked = [*asked, ("user", "\n\n".join(texts))]
    return [*before, *asked]


def _context_texts(value: Any, field: str) -> list[str]:
    entries = value if isinstance(value, list) else [value]
    return [whole for entry in entries if (whole := text(entry, field))]


def _pairs(value: Any) -> list[Turn]:
    """The turns of a history of pairs of a question and an answer (LLaMA-Factory)."""
    if not isinstance(value, list) or not all(isinstance(v, list) and len(v) == 2 for v in value):
        return []
    roles = ("user", "assistant")
    return [(role, str(said)) for pair in value for role, said in zip(roles, pair, strict=True)]
