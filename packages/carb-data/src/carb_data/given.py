"""The rule ``options``: what a record asks, and which of its answers are right and wrong."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from carb_data.declaration import OptionsAsGiven, fill, template_fields
from carb_data.keys import (
    Options,
    System,
    label,
    place_of,
    refuse_other_letters,
    without_letters,
)
from carb_data.tables import Record, plain
from carb_data.turn_marks import refuse_marks
from carb_data.values import (
    Answer,
    Defect,
    Turn,
    UnreadError,
    amount,
    answers,
    as_shown,
    at,
    plain_text,
    text,
    text_at,
    turns,
    unpacked,
)

Answers = list[Answer]
Asked = str | list[dict[str, str]]
"""A question: one text, or turns with role and content."""


class TieError(Exception):
    """A record says that no answer is better."""


class Given(NamedTuple):
    """The question of a record, and its answers."""

    prompt: Asked
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    lettered: bool = False
    """Whether the options carried letters of their own."""

    @property
    def asked(self) -> str:
        """The question as one text."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n\n".join(turn["content"] for turn in self.prompt)


def read_record(rule: OptionsAsGiven, record: Record, system: System) -> Given:
    """Read a record by a rule.

    Raises:
        TieError: it says that no answer is better.
        UnreadError: something is missing, or has no reading or two; all defects at once.
    """
    defects: list[Defect] = []
    right: Answers = []
    wrong: Answers = []
    lettered = False
    try:
        right, wrong, lettered = _answers(rule, record, system)
    except UnreadError as error:
        defects += error.defects
    try:
        prompt = _prompt(rule, record, [*right, *wrong])
    except UnreadError as error:
        raise UnreadError(*error.defects, *defects) from None
    if defects:
        raise UnreadError(*defects)
    right_texts = tuple(answer for answer, _ in right)
    wrong_texts = tuple(answer for answer, _ in wrong)
    _check(rule, right_texts, wrong_texts)
    return Given(prompt, right_texts, wrong_texts, lettered)


def plain_reader(rule: OptionsAsGiven) -> Callable[[Record], Given | None]:
    """Reads records that hold a question and two answers as plain texts, as most of a large table
    do, in a fifth of the time of ``read_record``; null for every other record."""
    names = [rule.question, *rule.chosen, *rule.rejected]
    others = rule.fields.difference(names)
    marks = {*".*|"}
    named = all(marks.isdisjoint(field) for field in rule.fields)
    fits = named and "" not in names and len({*names}) == 3

    def read(record: Record) -> Given | None:
        if not fits or not others.isdisjoint(record):
            return None
        prompt, right, wrong = map(plain_text, map(record.get, names))
        if not (prompt and right and wrong):
            return None
        begin = right[:2] + wrong[:2]
        if right[0] == wrong[0] or not begin.isascii():
            shown = {"", as_shown(right), as_shown(wrong)}
            if len(shown) < 3:
                return None
        return Given(prompt, (right,), (wrong,))

    return read


def _answers(rule: OptionsAsGiven, record: Record, system: System) -> tuple[Answers, Answers, bool]:
    """The right and the wrong answers, and whether they carried letters of their own."""
    if rule.chosen:
        return *_pair(rule, record), False
    if rule.scores:
        return *_best(rule, record), False
    return _choice(rule, record, system)


def _answers_at(record: Record, paths: Sequence[str], field: str) -> Answers:
    return [answer for path in paths for answer in answers(at(record, path), field)]


def _check(rule: OptionsAsGiven, right: Sequence[str], wrong: Sequence[str]) -> None:
    if len(right) > 1 and not rule.each:
        reason = f"holds {len(right)} right answers, and a set has one; write a row for each"
        raise UnreadError(("chosen", reason))
    if not wrong:
        raise UnreadError(("rejected", "every wrong answer is empty"))
    every = (*right, *wrong)
    shown = {*map(as_shown, every)}
    if "" in shown:
        raise UnreadError(("rejected", "an answer holds no visible character"))
    if len(shown) < len(every):
        raise UnreadError(("rejected", "two answers are the same"))


def _pair(rule: OptionsAsGiven, record: Record) -> tuple[Answers, Answers]:
    right = _answers_at(record, rule.chosen, "chosen")
    wrong = _answers_at(record, rule.rejected, "rejected")
    if not right:
        raise UnreadError(("chosen", "is empty"))
    return right, wrong


def _best(rule: OptionsAsGiven, record: Record) -> tuple[Answers, Answers]:
    options = _answers_at(record, rule.options, "options")
    pairs = zip(rule.options, rule.scores, strict=False)
    paths = [path for option, path in pairs if at(record, option) is not None]
    scores = [score for path in paths for score in _flat(at(record, path))]
    if len(options) != len(scores) or not options:
        reason = f"{len(scores)} scores do not fit {len(options)} options"
        raise UnreadError(("scores", reason))
    try:
        numbers = [*map(amount, scores)]
    except ValueError:
        for score in scores:
            text(score, "scores")
        raise UnreadError(("scores", "must be numbers")) from None
    best = max(numbers)
    if rule.ranks:
        best = min(numbers)
    if numbers.count(best) > 1 or len(numbers) == 1:
        raise TieError
    right = options.pop(numbers.index(best))
    return [right], options


def _choice(
    rule: OptionsAsGiven,
    record: Record,
    system: System,
) -> tuple[Answers, Answers, bool]:
    given, options = options_of(rule, record)
    refuse_marks(given.texts)
    right = _right_option(rule, record, given, system)
    bare = None
    if rule.key:
        bare = without_letters(given)
    if bare is not None:
        histories = [before for _, before in options]
        options = [*zip(bare.texts, histories, strict=True)]
    others: Sequence[int] = range(len(options))
    if key := text_at(record, rule.wrong, rule.wrong):
        others = [_option(rule, key, given, system, rule.wrong)]
    wrong = [options[number] for number in others if number != right and options[number][0]]
    return [options[right]], wrong, bare is not None


def _right_option(
    rule: OptionsAsGiven,
    record: Record,
    given: Options,
    system: System,
) -> int:
    """The number of the option that all keys of a record name."""
    keys = keys_of(rule, record)
    ties = {*map(plain, rule.ties)}
    if not ties.isdisjoint(map(plain, keys.values())):
        raise TieError
    numbers = set()
    readings = []
    for name, key in keys.items():
        number = _option(rule, key, given, system, name)
        numbers.add(number)
        readings.append(f"{name} says {given.texts[number]!r}")
    if len(numbers) > 1:
        raise UnreadError(("answer", f"has two readings: {' and '.join(readings)}"))
    asked = _with_context(rule, record, _asked(rule, record))
    if {*keys.values()}.isdisjoint(given.texts):
        refuse_other_letters("\n".join(content for _, content in asked), given, system)
    return numbers.pop()


def _option(
    rule: OptionsAsGiven,
    key: str,
    given: Options,
    system: System,
    field: str,
) -> int:
    """The number of the option that a key names; of the first where there is no key."""
    if not rule.keys:
        if rule.key:
            return place_of(key, given, system, field)
        return 0
    if not key:
        raise UnreadError((field, "is empty"))
    known = zip(rule.keys, given.texts, strict=False)
    for number, (keys, option) in enumerate(known):
        if option and _means(keys, key):
            return number
    raise UnreadError((field, f"'{key}' is none of the options"))


def _means(keys: str, key: str) -> bool:
    """Whether a key is one of some names, or fits the regular expression behind ``~``."""
    if keys.startswith("~"):
        return re.fullmatch(keys[1:], key) is not None
    return plain(key) in map(plain, keys.split("|"))


def options_of(rule: OptionsAsGiven, record: Record) -> tuple[Options, Answers]:
    """The options of a record in their order, empty ones too."""
    names = []
    options: Answers = []
    if not rule.options:
        options = [(keys.partition("|")[0], ()) for keys in rule.keys]
    for path in rule.options:
        value = _held(rule, record, path)
        for name, entry in _entries(value, path):
            readings = answers(entry, "options")
            if len(readings) > 1:
                reason = "an option holds a list of several texts; write one text for each option"
                raise UnreadError(("options", reason))
            options += readings or [("", ())]
            if name is not None:
                names.append(name)
    if len(names) < len(options):
        names = []
    texts = tuple(option for option, _ in options)
    return Options(texts, tuple(names)), options


def _held(rule: OptionsAsGiven, record: Record, path: str) -> Any:
    """The options of a field: several of one text as a list, with labels as an object."""
    value = unpacked(at(record, path))
    if rule.joined and isinstance(value, str):
        return rule.joined.split(value)
    turn = str(at(record, rule.turn))
    if turn.isdecimal() and turns(value):
        return value[: 2 * int(turn)]
    if isinstance(value, Mapping) and isinstance(value.get("text"), list):
        texts = value["text"]
        labels = value.get("label", texts)
        pairs = zip(labels, texts, strict=False)
        return dict(pairs)
    return value


def _entries(value: Any, path: str) -> list[tuple[str | None, Any]]:
    """The options that a field holds, each with its name; those of a list have none."""
    if turns(value) is None:
        value = _labelled(value)
        if isinstance(value, list):
            return [(None, entry) for entry in value]
        if isinstance(value, Mapping):
            return [(label(str(name)), entry) for name, entry in value.items()]
    columns = [column.rpartition(".")[2] for column in path.split("|")]
    name = "|".join(map(plain, columns))
    return [(name, value)]


_LABELS = "label key id letter"
_TEXTS = "text value content answer"


def _labelled(options: Any) -> Any:
    """Options that are objects of a label and a text, as one object; others as they are."""
    if not isinstance(options, list):
        return options
    by_label = {}
    for option in options:
        if not isinstance(option, Mapping):
            return options
        labels = [str(option[name]) for name in _LABELS.split() if name in option]
        contents = [option[name] for name in _TEXTS.split() if name in option]
        if len(labels) != 1 or len(contents) != 1:
            return options
        if {"label", "value"} <= {*option} and len(labels[0]) > 2 >= len(str(contents[0])):
            return options  # a value that is a number, or the label's text?
        by_label[labels[0]] = contents[0]
    if len(by_label) < len(options):
        return options
    return by_label


_NUMBERED = "holds numbers of several options; write the letter or the text of the right one"


def keys_of(rule: OptionsAsGiven, record: Record) -> dict[str, str]:
    """The key of a record, by the column that holds it; several people's keys are one where they
    agree, else a tie.

    Raises:
        TieError: they do not agree.
    """
    value = None
    if rule.key:
        value = unpacked(at(record, rule.key))
    if isinstance(value, Mapping) and value and not _is_ranking(value):
        if not any(isinstance(key, str) for key in value.values()):
            raise UnreadError(("answer", _NUMBERED))
        value = tuple(value.items())
    if isinstance(value, tuple):
        return {name: text(key, name) for name, key in value}
    entries = _rankings(value)
    if rule.keys:
        entries = _flat(value)
    elif len(entries) > 1 and {*map(str, entries)} <= {*"01"}:
        raise UnreadError(("answer", _NUMBERED))
    keys = {text(_best_ranked(entry), "answer") for entry in entries} - {""}
    if len(keys) > 1:
        raise TieError
    return {"answer": next(iter(keys), "")}


def _flat(value: Any) -> list[Any]:
    value = unpacked(value)
    if not isinstance(value, list):
        return [value]
    return [one for entry in value for one in _flat(entry)]


def _rankings(value: Any) -> list[Any]:
    """The choice of each person; of a list of all options in their order, the first (Argilla 2)."""
    value = unpacked(value)
    if not isinstance(value, list):
        return [value]
    people: list[Any] = []
    for entry in map(unpacked, value):
        if not isinstance(entry, list):
            people.append(entry)
            continue
        ranked = all(map(_is_ranking, entry))
        if ranked and all(isinstance(one["rank"], int) for one in entry):
            ranks = [one["rank"] for one in entry]
            values = [one["value"] for one in entry]
            people.append({"rank": ranks, "value": values})
        else:
            people.append(entry[0])
    return people


def _is_ranking(value: Any) -> bool:
    """Whether a value is a ranking as Argilla writes it."""
    return isinstance(value, Mapping) and {"rank", "value"} <= {*value}


def _best_ranked(value: Any) -> Any:
    """The top of a ranking; any other value as it is."""
    if not _is_ranking(value):
        return value
    ranks = value["rank"]
    if not isinstance(ranks, list):
        return value["value"]
    top = min(ranks, default=0)
    if ranks.count(top) != 1:
        raise TieError
    index = ranks.index(top)
    return value["value"][index]


# what is asked


def _prompt(rule: OptionsAsGiven, record: Record, options: Sequence[Answer]) -> Asked:
    histories = {before for _, before in options}
    histories.discard(())
    if len(histories) > 1:
        raise UnreadError(("rejected", "follows another conversation than the right answer"))
    history = next(iter(histories), ())
    asked = _asked(rule, record)
    merged = _merged([*history], asked)
    conversation = _with_context(rule, record, merged)
    system = text_at(record, rule.system, "system")
    if not conversation:
        raise UnreadError(("prompt", "is empty"))
    first_role, first_content = conversation[0]
    if system and first_role == "system" and first_content != system:
        raise UnreadError(("system", "stands beside another turn of the system; keep one"))
    if system and first_role != "system":
        conversation.insert(0, ("system", system))
    elif len(conversation) == 1 and first_role == "user":
        return first_content
    return [{"role": role, "content": content} for role, content in conversation]


def _merged(history: list[Turn], asked: list[Turn]) -> list[Turn]:
    """The turns before the answers, which begin with the question's own field."""
    if not history or not asked:
        return history or asked
    answered = _without_system(history)
    question = _without_system(asked)
    if answered[: len(question)] != question:
        raise UnreadError(("prompt", "is not the beginning of the conversation in the answers"))
    for role, content in history + asked:
        if role == "system":
            return [(role, content), *answered]
    return answered


def _without_system(conversation: list[Turn]) -> list[Turn]:
    return [(role, content) for role, content in conversation if role != "system"]


def _asked(rule: OptionsAsGiven, record: Record) -> list[Turn]:
    """The turns of the question's own field."""
    if rule.question:
        raw = unpacked(at(record, rule.question))
        conversation = turns(raw)
        if conversation is not None:
            return conversation
        if isinstance(raw, list) and len(raw) == 1:
            (raw,) = raw
        whole = text(raw, "prompt")
    else:
        fields = template_fields(rule.prompt)
        texts = {field: text_at(record, field, field) for field in fields}
        whole = fill(rule.prompt, texts)
    after = text_at(record, rule.after, rule.after)
    whole = "\n".join(filter(None, (whole, after)))
    if whole:
        return [("user", whole)]
    return []


def _with_context(rule: OptionsAsGiven, record: Record, asked: list[Turn]) -> list[Turn]:
    """The question with the text before it."""
    before: list[Turn] = []
    texts: list[str] = []
    for path in rule.context:
        value = unpacked(at(record, path))
        if value is None:
            continue
        conversation = turns(value)
        entries = _flat(value)
        if path == "history":
            conversation = conversation or _pairs(value)
            entries = [value]
        if conversation:
            before += conversation
            continue
        contexts = [text(entry, path) for entry in entries]
        texts += filter(None, contexts)
    if asked and asked[-1][0] == "user":
        *asked, (_, question) = asked
        texts.append(question)
    if texts:
        asked = [*asked, ("user", "\n\n".join(texts))]
    return before + asked


def _pairs(value: Any) -> list[Turn]:
    """The turns of a history of pairs of a question and an answer (LLaMA-Factory)."""
    if not isinstance(value, list):
        return []
    history: list[Turn] = []
    for pair in value:
        if not isinstance(pair, list) or [*map(type, pair)] != [str, str]:
            return []
        question, answer = pair
        history += [("user", question), ("assistant", answer)]
    return history
