"""The open-book control: facts of a bank before the prompt, ``judge:MODEL?facts=BANK`` and so of
every kind.

It separates models that cannot read a set from models without the knowledge. Facts are found
by the place and the prompt alone. A question of the bank's own families finds its fact in any
language; other questions find theirs by words. The candidates, the item's name and its sources are
not read, so a scorer still cannot see which response is right. But a bank may hold the answer: this
is a control, not a result.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from carb_data import (
    BonSet,
    CarbError,
    Fact,
    as_text,
    home_path,
    load_facts,
    load_families,
    seed_folders,
)
from carb_scorers.blind import Blinded
from carb_scorers.scorer import Scorer, ScoreRequest, ScoreResult

HEADING = "Known about this place:"
SHOWN = 3
"""Facts before a prompt, at most."""
_STEM = 5
"""Letters of a word that are compared, so that 'holidays' finds 'holiday'."""
_K1 = 1.2
_B = 0.75
"""BM25's usual constants."""


class FactSearch:
    """Facts and the sets that were made from them, and the search for those that belong to a
    prompt."""

    def __init__(self, facts: Sequence[Fact], sets: Sequence[BonSet] = ()) -> None:
        self._facts = sorted(facts, key=lambda fact: fact.id)
        right = ((item.prompt, item.chosen.source) for item in sets)
        self._of = {as_text(prompt): source.fact for prompt, source in right if source is not None}
        self._words = [Counter(_stems(fact.statement)) for fact in self._facts]
        size = len(self._facts)
        self._weights = {}
        facts_with = Counter(chain.from_iterable(self._words))
        for word, count in facts_with.items():
            rare = (size - count + 0.5) / (count + 0.5)
            self._weights[word] = math.log(1 + rare)
        total = sum(words.total() for words in self._words)
        self._mean = total / size

    def find(self, request: ScoreRequest) -> list[Fact]:
        """The facts of the request's place: the one of its question, then those that share most
        words with its prompt.

        Ranked by BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25
        and Beyond", equation 3.15). Other facts that share no word are left out. So are facts of
        another place that apply here, too (``Fact.also``): their statements name the other place. A
        request without a place gets no fact.
        """
        prompt = as_text(request.prompt)
        words = set(_stems(prompt))
        of_question = self._of.get(prompt)
        ranked = []
        for number, fact in enumerate(self._facts):
            if fact.culture != request.culture:
                continue
            value = self._value(words, self._words[number])
            is_its_own = fact.id == of_question
            if value > 0 or is_its_own:
                ranked.append((not is_its_own, -value, number))
        ranked.sort()
        return [self._facts[number] for _, _, number in ranked[:SHOWN]]

    def shown(self, request: ScoreRequest) -> ScoreRequest:
        """The request with the facts before the last turn of its prompt; as it is where none was
        found."""
        facts = self.find(request)
        if not facts:
            return request
        text = "\n".join([HEADING, *(f"- {fact.statement}" for fact in facts)])
        prompt = request.prompt
        if isinstance(prompt, str):
            return request.changed(prompt=f"{text}\n\n{prompt}")
        last = prompt[-1].changed(content=f"{text}\n\n{prompt[-1].content}")
        return request.changed(prompt=(*prompt[:-1], last))

    @property
    def digest(self) -> str:
        """SHA-256 of the ids, statements and places of all facts, and of the questions about
        them."""
        lines = [
            f"{fact.id}\0{fact.statement}\0{fact.culture}\0{','.join(fact.also)}"
            for fact in self._facts
        ]
        lines += [f"{prompt}\0{fact}" for prompt, fact in sorted(self._of.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _value(self, asked: set[str], words: Counter[str]) -> float:
        relative = words.total() / self._mean
        length = _K1 * (1 - _B + _B * relative)
        value = 0.0
        for word, count in words.items():
            if word in asked:
                often = count * (_K1 + 1) / (count + length)
                value += self._weights[word] * often
        return value


class OpenBookScorer:
    """A scorer behind prompts with facts; its spec records the bank and a hash of all
    facts."""

    def __init__(self, scorer: Scorer, bank: str, search: FactSearch) -> None:
        self._scorer = scorer
        self._search = search
        # the facts are those of the set's place, and name it
        added = {"facts": bank, "facts_sha256": search.digest, "tell": "culture"}
        self.spec = scorer.spec.changed(parameters={**scorer.spec.parameters, **added})

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[ScoreResult]:
        """See ``Scorer``."""
        shown = [self._search.shown(request) for request in requests]
        return await self._scorer.score(shown)

    def without_fact(self, asked: Iterable[Blinded]) -> tuple[str, ...]:
        """Ids of the sets that are shown no fact, or not the one that their right answer follows.

        Raises:
            CarbError: none is shown any fact, so that nothing is open book.
        """
        missed: dict[str, None] = {}
        shown: set[str] = set()
        for one in asked:
            facts = {fact.id for fact in self._search.find(one.request)}
            shown |= facts
            source = one.item.chosen.source
            if not facts or (source and source.fact not in facts):
                missed[one.item.id] = None
        if missed and not shown:
            raise CarbError(
                f"'{self.spec.name}': no fact of the bank fits the place and the words of any of "
                "these sets, so that nothing is open book. Give the bank that they were made from."
            )
        return tuple(missed)

    async def aclose(self) -> None:
        """Close the scorer."""
        await self._scorer.aclose()


def search_of(bank: str) -> FactSearch:
    """The search in a bank: ``carb-seed``, a folder with ``facts/*.jsonl``, or a ``.jsonl`` file
    of facts.

    Raises:
        CarbError: there are no facts, or a line of them or of the folder's ``families/*.jsonl`` is
            wrong.
    """
    folder = seed_folders().get(bank) or home_path(bank)
    return FactSearch(load_facts(folder), load_families(folder))


def _stems(text: str) -> list[str]:
    words = re.findall(r"\w+", text.casefold())
    return [word[:_STEM] for word in words]
