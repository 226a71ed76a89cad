"""What a judge asks: phrases of a language in a layout, filled with an item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from carb_data import cultures
from carb_data.models import as_text
from carb_scorers.contract import UNKNOWN, ScoreRequest
from carb_scorers.models.protocol import Prompt, Turn, Turns
from carb_scorers.templates import fill, fill_phrase, read_words

Mode = Literal["listwise", "pairwise", "pointwise"]
Reply = Literal["letter", "number", "verdict_letter", "verdict_ranking", "verdict_number"]
"""Which phrase says how to answer."""

LOWEST, HIGHEST = 1, 10
"""The scale of ratings."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Writes prompts.

    Args:
        mode: decides the layout ``MODE-culture``.
        prompt: another layout, by name (``listwise-plain``) or path, or ``culture`` or ``plain``. A request of which
            the culture is not known is asked about with ``plain`` in the place of ``culture``.
        language: BCP 47 tag of the phrases, or ``item``.
        words: folder of phrases; see ``read_words``.
    """

    mode: Mode
    prompt: str
    language: str
    words: str | None

    def ask(
        self,
        request: ScoreRequest,
        texts: Sequence[str],
        letters: Sequence[str],
        reply: Reply,
        *,
        falling: bool = False,
    ) -> Prompt:
        """The prompt that shows some candidates.

        Args:
            request: the item.
            texts: candidates in presented order.
            letters: a letter for each.
            reply: how to answer.
            falling: name a scale of ratings from its upper end.

        Raises:
            CarbError: the layout is missing or broken, or there are no phrases in the language.
        """
        language = request.language if self.language == "item" else self.language
        words = read_words_once(language, self.words)
        scale = [(LOWEST, fill_phrase(words["worst"], {})), (HIGHEST, fill_phrase(words["best"], {}))]
        first, last = scale[::-1] if falling else scale
        terms = {
            "culture": _culture_name(request.culture, words),
            "count": len(texts),
            "first": first[0],
            "first_means": first[1],
            "last": last[0],
            "last_means": last[1],
        }
        phrases = {name: fill_phrase(text, terms) for name, text in words.items() if isinstance(text, str)}
        fields: dict[str, Any] = {
            **terms,
            "language": request.language,
            "letters": list(letters),
            "candidates": [{"letter": x, "text": text} for x, text in zip(letters, texts, strict=True)],
            "words": phrases,
            "reply": phrases[f"reply_{reply}"],
        }

        question = as_text(request.prompt)
        layout = f"{self.mode}-plain" if self.prompt == "culture" and request.culture == UNKNOWN else self.layout

        def messages(question: str) -> Turns:
            return (Turn(role="user", content=fill(layout, {**fields, "prompt": question})),)

        return Prompt(
            messages=messages(question),
            cue=f"\n\n{phrases['answer']}:",
            question=question,
            with_question=messages,
        )

    @property
    def layout(self) -> str:
        """Name or path of the template."""
        return f"{self.mode}-{self.prompt}" if self.prompt in {"culture", "plain"} else self.prompt


@cache
def read_words_once(language: str, folder: str | None) -> dict[str, Any]:
    """``read_words``, cached."""
    return read_words(language, folder)


def _culture_name(culture: str, words: dict[str, Any]) -> str:
    known = words.get("cultures", {})
    if culture in known:
        return str(known[culture])
    return cultures[culture].name if culture in cultures else culture
