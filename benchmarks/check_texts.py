"""What the texts of the seed's families must keep, language by language, for their writers.

``problems`` are faults. ``looks`` are places where a reader judges: most of them are right.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from carb_data.errors import Problem
from carb_data.facts import Fact, Line
from carb_data.family import Bank, Family
from carb_data.models import Kind, as_text
from carb_data.surface import names_culture

UNSPACED = {"zh", "ja", "th"}
"""Languages whose script does not space words."""
FRAME = 0.05
"""The share of a language's second wordings that may begin alike."""
SHARED_CUES = 2
"""Source items of a language whose second wordings may tell a place by the same cue."""
LANDMARKS = tuple(
    tuple(line.split(" ", 1))
    for line in Path(__file__).with_name("landmarks.txt").read_text("utf-8").splitlines()
)
"""A language, and the name of a tower or a quarter that is a second name of its country."""
_LITERAL = re.compile(
    r"word for word|literal|wörtlich|wort für wort|palabra por palabra|al pie de la letra"
    r"|дословно|буквально|عناه الحرفي|حرفي|字面|直訳|文字どおり|文字通り|직역|글자 그대로|말 그대로"
    r"|แปลตรงตัว|ความหมายตรงตัว|nghĩa đen",
    re.IGNORECASE,
)
"""What asks for the literal meaning of a phrase."""
_THERE = {
    "ar": "هناك",
    "de": r"\bdort\b|\bda üblich",
    "en": r"(people|done|do|say|says|expect|expected|call|called|usual|over|out|down) there\b",
    "es": r"\b(ahí|allí|allá)\b",
    "ja": "そこの人|現地|あちら|地元の人|その土地",
    "ko": "거기|그곳|현지|그쪽",
    "ru": r"\bтам\b|\bместн",
    "th": "ที่นั่น|คนแถวนั้น",
    "vi": r"ở đó|bên đó|người bên ấy",
    "zh": "那里|那裡|那儿|那邊|那边|当地|當地",
}
"""How a question asks about people elsewhere."""
_VOICE = {
    "ar": r"\b(أنا|لي|عندي)\b",
    "de": r"\b(ich|mich|mir|mein\w*)\b",
    "en": r"\b(I|me|my|mine)\b",
    "es": r"\b(yo|me|mi|mis|conmigo)\b",
    "ja": "私|わたし|僕",
    "ko": r"\b(저는|제가|저희)\b",
    "ru": r"\b(я|мне|меня|мой|моя|моё|моего|моей|моему)\b",
    "th": "ฉัน|ผม|ดิฉัน",
    "vi": r"\b(tôi)\b",
    "zh": "我",
}
"""The first person, in which no answer to a user speaks of the user."""
_CHARACTER = r"[\u3040-\u30ff\u3400-\u9fff]"
_HALF_WIDTH = re.compile(rf"(?<={_CHARACTER})[,?!:;](?={_CHARACTER}|$)")
_MARKS = {
    "comma": ",，、،",
    "colon": ":：",
    "semicolon": ";；؛",
    "dash": "–—",
    "quotes": '"“”„«»「」『』',
    "brackets": "()（）",
    "question": "?？؟",
    "exclamation": "!！",
}

_SLIPS = ("comma", "dash", "semicolon")


def problems(bank: Bank, language: str | None = None) -> list[Problem]:
    """The faults of all texts, or of those of one language and its scripts.

    Args:
        bank: the bank that ``read_bank`` returned.
        language: ``zh`` stands for ``zh-Hant``, too; null is every language.
    """
    facts = bank.by_id
    lines = [line for line in bank.families if language in (None, _base(line.content.language))]
    single = [
        _at(line, *found)
        for line in lines
        for rule in (_phrase, _literal, _wording, _perturbed, _typography)
        for found in rule(line.content, facts)
    ]
    return [*single, *_shared(lines)]


def looks(bank: Bank, language: str) -> list[Problem]:
    """Where a reader should look at the texts of one language."""
    facts = bank.by_id
    return [
        _at(line, *found)
        for line in bank.families
        if _base(line.content.language) == language
        for rule in (_elsewhere, _voice, _marks)
        for found in rule(line.content, facts)
    ]


def source_item(family: Family) -> str:
    """The id without the endings of whole replies and of traditional script."""
    return re.sub("(-reply)?(-hant)?$", "", family.id)


def says(text: str, phrase: str) -> bool:
    """Whether a text has a phrase, whatever its capitals, apostrophes and hyphens."""
    return _plain(phrase) in _plain(text)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    return " ".join(re.sub("[-‐‑–]", " ", text).split())


def _short(text: str) -> str:
    return " ".join(text.split())[:60]


def _base(language: str) -> str:
    return language.partition("-")[0].lower()


def _at(line: Line[Family], field: str, reason: str) -> Problem:
    return Problem(line.file, line.number, field, f"{line.content.id}: {reason}")


def _phrase(family: Family, facts: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """The answer of a phrase's home, in its language, has the phrase as people say it."""
    texts = [(answer.fact, answer.text) for answer in family.answers]
    if family.perturbed is not None:
        given = (family.perturbed.RC, family.perturbed.RP)
        texts += [(family.answers[0].fact, text) for text in given if text is not None]
    for name, text in texts:
        phrase = facts[name].says
        if phrase is None or phrase.language != family.language or says(text, phrase.text):
            continue
        yield "answers", f"{name} without its phrase “{phrase.text}”: {_short(text)}"


def _literal(family: Family, facts: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    found = _LITERAL.search(as_text(family.question))
    if found and facts[family.answers[0].fact].kind in (Kind.FORMULA, Kind.PRAGMATICS, Kind.WORD):
        yield "question", f"asks for a literal meaning, “{found[0]}”"


def _wording(family: Family, _: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """A second wording tells its place by a cue of life there, not by a landmark."""
    for place in family.places:
        if place.implied is None:
            continue
        text = as_text(place.implied)
        yield from (
            ("places", f"the second wording of '{place.name}' has the landmark “{name}”")
            for language, name in LANDMARKS
            if language == family.language and name in text
        )
        if place.cue is None:
            yield "places", f"the second wording of '{place.name}' gives no cue"
        elif place.cue not in text:
            yield "places", f"the second wording of '{place.name}' does not have “{place.cue}”"


def _perturbed(family: Family, _: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """Question and answers name the place; RC takes it from the answer."""
    if family.perturbed is None:
        return
    culture = family.places[0].culture
    asked = as_text(family.question).replace("{place}", family.places[0].name)
    if not names_culture(asked, culture):
        yield "places", f"the question does not name {culture}"
    unnamed = [one.fact for one in family.answers if not names_culture(one.text, culture)]
    if unnamed:
        yield "answers", f"no name of {culture} in the answers of {', '.join(unnamed)}"
    if family.perturbed.RC is not None and names_culture(family.perturbed.RC, culture):
        yield "perturbed", f"RC still names {culture}"


def _typography(family: Family, _: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    if _base(family.language) not in ("zh", "ja"):
        return
    for text in _texts(family):
        if _HALF_WIDTH.search(text):
            yield "text", f"half-width marks: {_short(text)}"
        if _base(family.language) == "zh" and "・" in text:
            yield "text", f"the Japanese dot ・ in a list: {_short(text)}"


def _texts(family: Family) -> list[str]:
    wordings = [as_text(place.implied) for place in family.places if place.implied is not None]
    versions = family.perturbed
    changed = [] if versions is None else [versions.CC, versions.RC, versions.RP]
    return [
        as_text(family.question),
        *(answer.text for answer in family.answers),
        *wordings,
        *(text for text in changed if text is not None),
    ]


def _shared(lines: Sequence[Line[Family]]) -> Iterator[Problem]:
    """Cues and openings that too many second wordings of a language have."""
    cues: dict[tuple[str, str], dict[str, Line[Family]]] = defaultdict(dict)
    frames: dict[tuple[str, str], list[Line[Family]]] = defaultdict(list)
    wordings: Counter[str] = Counter()
    read: set[str] = set()
    for line in lines:
        family = line.content
        for place, opening in zip(family.places, _openings(family), strict=False):
            text = as_text(place.implied or "")
            if not text or text in read:
                continue
            read.add(text)
            wordings[family.language] += 1
            frames[family.language, opening].append(line)
            if place.cue is not None:
                cues[family.language, place.cue][source_item(family)] = line
    for (_, cue), items in cues.items():
        if len(items) > SHARED_CUES:
            yield _at([*items.values()][-1], "places", f"{len(items)} items have the cue “{cue}”")
    for (language, opening), found in frames.items():
        if len(found) > max(SHARED_CUES, FRAME * wordings[language]):
            reason = f"{len(found)} of {wordings[language]} second wordings open “{opening}”"
            yield _at(found[-1], "places", reason)


def _openings(family: Family) -> list[str]:
    """How each second wording begins, from where those of the family differ."""
    texts = [as_text(place.implied) for place in family.places if place.implied is not None]
    columns = zip(*texts, strict=False) if len(texts) > 1 else iter(())
    common = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    if _base(family.language) in UNSPACED:
        return [text[common : common + 5] for text in texts]
    begin = texts[0].rfind(" ", 0, common) + 1 if texts else 0
    return [" ".join(text[begin:].split()[:3]) for text in texts]


def _elsewhere(family: Family, facts: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """Whoever asks from home does not ask about people there."""
    countries = {facts[answer.fact].place[:2] for answer in family.answers}
    pattern = _THERE[_base(family.language)]
    found = re.search(pattern, as_text(family.question), re.IGNORECASE)
    if found and len(countries) > 1:
        yield "question", f"“{found[0]}” where home is asked about, too"


def _voice(family: Family, _: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    if family.form != "short":
        return
    for answer in family.answers:
        if found := re.search(_VOICE[_base(family.language)], answer.text, re.IGNORECASE):
            yield "answers", f"“{found[0]}” is the asker's voice: {_short(answer.text)}"


def _marks(family: Family, _: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """Marks that one answer alone has or lacks; in mirrored families those that are slips."""
    texts = [answer.text for answer in family.answers]
    if family.form == "reply":
        return
    for name, marks in _MARKS.items():
        if len(family.places) == 1 or name in _SLIPS:
            yield from _alone(name, [any(mark in text for mark in marks) for text in texts], texts)
    yield from _alone("final mark", [not text.rstrip()[-1].isalnum() for text in texts], texts)


def _alone(name: str, has: Iterable[bool], texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    having = [*has]
    for one, verb in ((True, "has"), (False, "lacks")):
        if having.count(one) == 1:
            yield "answers", f"one answer alone {verb} a {name}: {_short(texts[having.index(one)])}"
