"""A scorer in a package of its own: how much of the prompt does a response repeat?

Copy this folder to begin a scorer. The whole contract is one class with ``spec``, ``score`` and
``aclose``, and one function that opens it from a spec string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Literal

from carb_data import CarbError, Frozen, read_options
from carb_scorers import Scorer, ScoreRequest, ScoreResult, ScorerSpec


class OverlapOptions(Frozen):
    """Options of ``overlap:words`` and ``overlap:letters``; mistakes in them are explained to the
    user."""

    case: Literal["keep", "fold"] = "fold"


class Overlap:
    """The share of the prompt's units that a response repeats, from 0 to 1."""

    def __init__(self, spec: ScorerSpec, target: str, options: OverlapOptions) -> None:
        self.spec = spec
        self._target = target
        self._options = options

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return [
            ScoreResult(
                request_id=r.request_id,
                scores={c.id: self._overlap(r.prompt, c.text) for c in r.candidates},
            )
            for r in requests
        ]

    async def aclose(self) -> None:
        """Nothing to give back."""

    def _overlap(self, prompt: str, text: str) -> float:
        asked, said = self._units(prompt), self._units(text)
        return len(asked & said) / len(asked) if asked else 0.0

    def _units(self, text: str) -> set[str]:
        text = text.casefold() if self._options.case == "fold" else text
        return set(text.split() if self._target == "words" else text)


def open_overlap(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``overlap:words?case=fold``."""
    if target not in {"words", "letters"}:
        raise CarbError(
            f"Scorer '{name}': there is no overlap of '{target}', only of words and of letters."
        )
    read = read_options(OverlapOptions, f"Scorer '{name}'", options)
    spec = ScorerSpec(
        name=name,
        kind="overlap",
        model=target,
        revision=version("carb-example"),
        parameters=read.model_dump(),
        comparative=False,  # a response's score does not depend on the others
    )
    return Overlap(spec, target, read)
