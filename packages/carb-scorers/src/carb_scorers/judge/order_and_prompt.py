"""A judge's prompts: a form's wording, with the phrases of a language in it, filled with an item.

The words of the shipped prompts are data: ``forms/*.toml`` and ``prompts/words/*.json``.
"""

import json
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import combinations
from typing import Any, Literal

from carb_data import CarbError, Message, as_text, cultures
from carb_scorers.jinja_filling import fill, undefined
from carb_scorers.judge.form import FormFile, Mode, Wording
from carb_scorers.models.protocol import Prompt, message
from carb_scorers.scorer import ScoreRequest

LETTERS = string.ascii_uppercase

Fields = Mapping[str, Any]
"""Values that a template may use, by name."""
Orders = Literal["one", "both", "rotated"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt, and the answers that it allows."""

    order: tuple[str, ...]
    """Ids of the candidates in the order in which the prompt shows them."""
    prompt: Prompt
    labels: tuple[str, ...]
    """The allowed answers: a letter for each candidate, or the ratings."""
    note: str = ""
    """Text before the judge's own, in the result's rationale."""


def shown_orders(ids: Sequence[str], mode: Mode, orders: Orders) -> list[tuple[str, ...]]:
    """The groups and orders in which an item's candidates are shown.

    Args:
        ids: the candidates' ids.
        mode: all of them, every two, or each alone.
        orders: ``one``: as given. ``both``: as given and reversed. ``rotated``: every candidate
            once in every position.
    """
    together: dict[Mode, Iterable[tuple[str, ...]]] = {
        "listwise": [tuple(ids)],
        "pairwise": combinations(ids, 2),
        "pointwise": [(key,) for key in ids],
    }
    listed: list[tuple[str, ...]] = []
    for shown in together[mode]:
        if orders == "both" and len(shown) > 1:
            listed += [shown, shown[::-1]]
        else:
            turns = 1
            if orders == "rotated":
                turns = len(shown)
            listed += [shown[turn:] + shown[:turn] for turn in range(turns)]
    return listed


@dataclass(frozen=True)
class Asker:
    """Writes prompts.

    Args:
        form: what is asked; it has the mode.
        mode: which of the form's wordings is used.
        language: BCP 47 tag of the phrases that a wording uses, or ``item`` for each item's own
            language.
        tells: whether a prompt may name the culture of its item.
    """

    form: FormFile
    mode: Mode
    language: str = "en"
    tells: bool = False

    @property
    def wording(self) -> Wording:
        """The form's wording in the mode."""
        return self.form.wording(self.mode)

    def ask(
        self, request: ScoreRequest, texts: Sequence[str], *, reads: bool, falling: bool = False
    ) -> Prompt:
        """The prompt that shows some candidates' texts in this order.

        ``reads``: the answer's probability is read, so that the answer alone is asked for.
        ``falling``: a scale of ratings is named from its upper end.

        Raises:
            CarbError: a template is broken, there are no phrases in the language, or more texts
                than letters.
        """
        if len(texts) > len(LETTERS):
            raise CarbError(
                f"A listwise judge shows at most {len(LETTERS)} candidates; use mode=pairwise."
            )
        culture = None
        if self.tells:
            culture = request.named_culture
        form = self.form
        if culture is None:
            form = form.placeless
        wording = form.wording(self.mode)
        language = request.language if self.language == "item" else self.language
        words = read_words(language)
        terms = _scale(wording, words, falling)
        terms["count"] = len(texts)
        if culture is not None:
            # in the language of the phrases, or else in English
            terms["culture"] = words["cultures"].get(culture) or cultures.name(culture)
        phrases = _phrases(words, terms)
        letters = LETTERS[: len(texts)]
        fields: dict[str, Any] = {
            "culture": undefined(NOT_TOLD),
            **terms,
            "language": request.language,
            "letters": list(letters),
            "candidates": [
                {"letter": letter, "text": text}
                for letter, text in zip(letters, texts, strict=True)
            ],
            "words": phrases,
            "reads": reads,
            "prompt": as_text(request.prompt),
        }
        if form.rubric is not None:
            fields["rubric"] = fill(form.rubric, fields, f"The rubric of '{form.title}'").strip()
        cue = f"\n\n{phrases['answer']}:"
        return Prompt(_messages(form, self.mode, fields), cue=cue)


NOT_TOLD = (
    "the judge does not get the culture; give tell=culture, and write {% if culture is defined %} "
    "around its name, since a set may have none"
)


def _scale(wording: Wording, words: Fields, falling: bool) -> dict[str, Any]:
    """The ends of the scale with their meanings, in the order of the prompt."""
    named = zip(wording.scale, ("worst", "best"), strict=True)
    ends = [(number, fill(words[name], {}, name)) for number, name in named]
    if falling:
        ends.reverse()
    (first, first_means), (last, last_means) = ends
    return {
        "first": first,
        "first_means": first_means,
        "last": last,
        "last_means": last_means,
    }


def _phrases(words: Fields, terms: Fields) -> dict[str, str]:
    """The phrases of a language; those about a culture only where the judge gets it."""
    return {
        name: fill(text, terms, name)
        for name, text in words.items()
        if isinstance(text, str) and ("culture" in terms or not name.endswith("_culture"))
    }


def _messages(form: FormFile, mode: Mode, fields: Fields) -> tuple[Message, ...]:
    wording = form.wording(mode)
    turns: list[Message] = []
    if wording.system is not None:
        system = fill(wording.system, fields, f"{mode}.system of '{form.title}'")
        turns.append(message("system", system.strip()))
    user = fill(wording.user, fields, f"{mode}.user of '{form.title}'")
    turns.append(message("user", user.strip()))
    return tuple(turns)


@cache
def read_words(language: str) -> dict[str, Any]:
    """The phrases of a language, for prompts that ask in it.

    Args:
        language: BCP 47 tag; ``zh-Hans`` falls back to ``zh``.

    Returns:
        Phrase name to Jinja text, and under ``cultures`` culture id to its name in that language.

    Raises:
        CarbError: the language has no phrases.
    """
    tag = language
    while tag:
        file = _folder() / f"{tag}.json"
        if file.is_file():
            return dict(json.loads(file.read_text(encoding="utf-8")))
        tag = tag.rpartition("-")[0]
    raise CarbError(
        f"There are no prompt phrases in the language '{language}' (there are: "
        f"{', '.join(word_languages())}). Use "
        f"prompt_language=en, or write a form in that language and name it with form=FILE."
    )


def word_languages() -> list[str]:
    """Languages that have phrases."""
    return sorted(entry.name.removesuffix(".json") for entry in _folder().iterdir())


def _folder() -> Traversable:
    return resources.files("carb_scorers") / "prompts" / "words"
