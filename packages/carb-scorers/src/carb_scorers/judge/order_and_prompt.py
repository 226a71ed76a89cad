"""What a judge is asked: a form's wording, with the phrases of a language in it, filled with an
item.

The words of the shipped prompts are data: ``forms/*.toml`` and ``prompts/words/*.json``.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import combinations
from typing import Any, Literal

from carb_data import CarbError, cultures
from carb_data.models import as_text
from carb_scorers.jinja_filling import fill
from carb_scorers.judge.form import FormFile, Mode, Wording, read_form
from carb_scorers.models.protocol import Prompt, Turn
from carb_scorers.scorer import UNKNOWN, ScoreRequest

LETTERS = string.ascii_uppercase

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
    """Text that stands before what is written, in the result's rationale."""


def shown_orders(ids: Sequence[str], mode: Mode, orders: Orders) -> list[tuple[str, ...]]:
    """Which candidates of an item are shown together, in which orders.

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
    found: list[tuple[str, ...]] = []
    for shown in together[mode]:
        if orders == "both" and len(shown) > 1:
            found += [shown, shown[::-1]]
        else:
            turns = len(shown) if orders == "rotated" else 1
            found += [shown[turn:] + shown[:turn] for turn in range(turns)]
    return found


@dataclass(frozen=True, slots=True)
class Asker:
    """Writes prompts.

    Args:
        form: what is asked; it has the mode.
        mode: which of the form's wordings is used.
        language: BCP 47 tag of the phrases that a wording uses, or ``item`` for each item's own
            language.
    """

    form: FormFile
    mode: Mode
    language: str = "en"

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
        letters, form = LETTERS[: len(texts)], self.form
        if request.culture == UNKNOWN and form.without_culture is not None:
            form = read_form(form.without_culture)
        wording = form.wording(self.mode)
        language = request.language if self.language == "item" else self.language
        words = read_words(language)
        known = words.get("cultures", {})
        scale = [
            (end, fill(words[name], {}, name))
            for end, name in zip(wording.scale, ("worst", "best"), strict=True)
        ]
        first, last = scale[::-1] if falling else scale
        terms = {
            "culture": known.get(request.culture) or cultures.name(request.culture),
            "count": len(texts),
        }
        terms |= {
            "first": first[0],
            "first_means": first[1],
            "last": last[0],
            "last_means": last[1],
        }
        phrases = {
            name: fill(text, terms, name) for name, text in words.items() if isinstance(text, str)
        }
        fields: dict[str, Any] = {
            **terms,
            "language": request.language,
            "letters": list(letters),
            "candidates": [
                {"letter": x, "text": text} for x, text in zip(letters, texts, strict=True)
            ],
            "words": phrases,
            "reads": reads,
        }
        if form.rubric is not None:
            fields["rubric"] = fill(form.rubric, fields, f"The rubric of '{form.title}'").strip()
        fields["prompt"] = as_text(request.prompt)
        parts: list[tuple[Any, str | None]] = [("system", wording.system), ("user", wording.user)]
        messages = tuple(
            Turn(
                role=role,
                content=fill(text, fields, f"{self.mode}.{role} of '{form.title}'").strip(),
            )
            for role, text in parts
            if text is not None
        )
        return Prompt(messages, cue=f"\n\n{phrases['answer']}:")


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
