"""Facts retrieved into the prompt: ``judge:MODEL?references=carb-seed@2``, or the same option of any other kind.

A small model does not know what holds in a place; it may still be able to read it. Facts are found by the place and
the words of the prompt alone. The candidates, the item's name and its sources are not looked at, so a scorer still
cannot see which response is right.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from carb_data import Fact
from carb_data.dataset import seed_folders
from carb_data.facts import load_facts
from carb_data.models import as_text
from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult
from carb_scorers.specs import ScorerOptions, read_options

HEADING = "Known about this place:"
_STEM = 5
"""Letters of a word that are compared, so that 'holidays' finds 'holiday'."""
_K1, _B = 1.2, 0.75
"""BM25's usual constants."""


class ReferenceOptions(ScorerOptions):
    """Options that every kind of scorer takes."""

    references: str
    """A bank of facts: ``carb-seed@2``, a folder with ``facts/*.jsonl``, or a ``.jsonl`` file of facts."""
    reference_count: int = Field(default=3, ge=1)
    """Facts that are shown before each prompt, at most."""


class References:
    """Facts, and the search for those that belong to a prompt."""

    def __init__(self, options: ReferenceOptions, facts: Sequence[Fact]) -> None:
        self.options = options
        self._facts = sorted(facts, key=lambda fact: fact.id)
        self._words = [Counter(_stems(fact.statement)) for fact in self._facts]
        spread = Counter(word for words in self._words for word in words)
        size = len(self._facts)
        self._weights = {word: math.log(1 + (size - n + 0.5) / (n + 0.5)) for word, n in spread.items()}
        self._mean = sum(words.total() for words in self._words) / size

    def find(self, request: ScoreRequest) -> list[Fact]:
        """The facts of the request's place that share most words with its prompt, best first.

        Ranked by BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond",
        equation 3.15). Facts that share no word are left out, and so are facts of another place that hold here, too
        (``Fact.also``): their statements name the other place. A request without a place is given no fact.
        """
        asked = set(_stems(as_text(request.prompt)))
        found = []
        for place, fact in enumerate(self._facts):
            if fact.culture == request.culture:
                value = self._value(asked, self._words[place])
                if value > 0:
                    found.append((-value, place))
        return [self._facts[place] for _, place in sorted(found)[: self.options.reference_count]]

    def shown(self, request: ScoreRequest) -> ScoreRequest:
        """The request with the facts before the last turn of its prompt; as it is where none was found."""
        facts = self.find(request)
        if not facts:
            return request
        text = "\n".join([HEADING, *(f"- {fact.statement}" for fact in facts)])
        prompt = request.prompt
        if isinstance(prompt, str):
            return request.model_copy(update={"prompt": f"{text}\n\n{prompt}"})
        last = prompt[-1].model_copy(update={"content": f"{text}\n\n{prompt[-1].content}"})
        return request.model_copy(update={"prompt": (*prompt[:-1], last)})

    def before(self, scorer: Scorer) -> Scorer:
        """The scorer, asked about prompts with facts; its spec records the option and a hash of all facts."""
        return _Referenced(scorer, self)

    @property
    def digest(self) -> str:
        """SHA-256 of the ids, statements and places of all facts."""
        lines = [f"{fact.id}\0{fact.statement}\0{fact.culture}\0{','.join(fact.also)}" for fact in self._facts]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _value(self, asked: set[str], words: Counter[str]) -> float:
        long = _K1 * (1 - _B + _B * words.total() / self._mean)
        return sum(self._weights[word] * n * (_K1 + 1) / (n + long) for word, n in words.items() if word in asked)


class _Referenced:
    def __init__(self, scorer: Scorer, references: References) -> None:
        self._scorer = scorer
        self._references = references
        added = {**references.options.model_dump(mode="json"), "references_sha256": references.digest}
        self.spec = scorer.spec.model_copy(update={"parameters": {**scorer.spec.parameters, **added}})

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[ScoreResult]:
        return await self._scorer.score([self._references.shown(request) for request in requests])

    async def aclose(self) -> None:
        await self._scorer.aclose()


def read_references(name: str, options: Mapping[str, str]) -> tuple[References | None, dict[str, str]]:
    """The references that a spec's options ask for, null where they ask for none, and the other options.

    Raises:
        CarbError: an option is wrong, or there are no facts.
    """
    own = {key: value for key, value in options.items() if key in ReferenceOptions.model_fields}
    rest = {key: value for key, value in options.items() if key not in own}
    if not own:
        return None, rest
    read = read_options(ReferenceOptions, name, own)
    folder = seed_folders().get(read.references) or Path(read.references).expanduser()
    return References(read, load_facts(folder)), rest


def _stems(text: str) -> list[str]:
    return [word[:_STEM] for word in re.findall(r"\w+", text.casefold())]
