"""What a judge is trained on: several sources of preferences, weighed, balanced, ordered, and split."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from carb_data import CarbError, load
from carb_data.models import Frozen
from tal_rlvr.layouts import Form, read_pairs
from tal_rlvr.pairs import OrderedPair, Pair, both_orders, off_topic_pairs, other_language_pairs


class MixSource(Frozen):
    """One source of preferences."""

    form: Form
    path: str
    weight: float = Field(default=1.0, gt=0)
    """Share of this source in the mix, relative to the other sources' weights."""
    task: Literal["culture", "off-topic", "other-language"] = "culture"
    """For ``carb`` sets: the set's own wrong responses, ``off_topic_pairs`` or ``other_language_pairs``."""
    culture: str | None = None
    language: str | None = None
    languages: tuple[str, ...] = ()
    """Keep pairs in these languages only; all when empty."""

    def read(self, seed: int) -> list[Pair]:
        """All pairs of the source."""
        if self.task != "culture":
            if self.form != "carb":
                raise CarbError(f"task='{self.task}' is made from sets of the form 'carb'.")
            make = off_topic_pairs if self.task == "off-topic" else other_language_pairs
            pairs = make(load(self.path), seed=seed)
        else:
            pairs = read_pairs(self.form, self.path, culture=self.culture, language=self.language)
        return [pair for pair in pairs if not self.languages or pair.language in self.languages]


class Parts(NamedTuple):
    """Training and held-out pairs; no source item is in both."""

    train: list[Pair]
    held_out: list[Pair]


class TrainingMix(Frozen):
    """Sources and how they are mixed."""

    sources: Annotated[tuple[MixSource, ...], Field(min_length=1)]
    held_out: float = Field(default=0.2, ge=0, lt=1)
    """Share of source items kept for the evaluation before and after training."""
    balance_cultures: bool = False
    """Draw cultures equally often; without it they occur as often as in the sources."""
    curriculum: Literal["none", "easy-first"] = "none"
    limit: int | None = Field(default=None, ge=1)
    """At most this many training pairs."""
    held_out_limit: int | None = Field(default=None, ge=1)
    per_item: int | None = Field(default=None, ge=1)
    """At most this many pairs of one source item and culture."""
    shuffle_labels: bool = False
    """The control: the right response is drawn by lot in the training part, so there is nothing to learn."""
    seed: int = 0

    def parts(self) -> Parts:
        """Read, split by source item, weigh, balance, order.

        A source item goes where the hash of the seed and its name falls. Pairs are drawn without repetition; a
        source smaller than its share gives all it has.

        Raises:
            CarbError: a source cannot be read, or a part is empty.
        """
        train: list[list[Pair]] = []
        held_out: list[Pair] = []
        for source in self.sources:
            pairs = self._thinned(source.read(self.seed))
            train.append([pair for pair in pairs if not self._is_held_out(pair)])
            held_out += [pair for pair in pairs if self._is_held_out(pair)]
        mixed = self._draw(train)
        if not mixed:
            raise CarbError("The mix has no training pair; lower held_out or add sources.")
        if self.shuffle_labels:
            mixed = [self._by_lot(pair) for pair in mixed]
        if self.curriculum == "easy-first":
            mixed.sort(key=lambda pair: pair.difficulty)
        self._rng("held-out").shuffle(held_out)
        return Parts(mixed, held_out[: self.held_out_limit])

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}\0{purpose}")

    def _thinned(self, pairs: Sequence[Pair]) -> list[Pair]:
        if self.per_item is None:
            return list(pairs)
        groups: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
        for pair in pairs:
            groups[pair.source_item, pair.culture, pair.language].append(pair)
        rng = self._rng("per-item")
        return [pair for group in groups.values() for pair in rng.sample(group, min(self.per_item, len(group)))]

    def _is_held_out(self, pair: Pair) -> bool:
        digest = hashlib.sha256(f"{self.seed}\0{pair.source_item}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < self.held_out

    def _draw(self, sources: list[list[Pair]]) -> list[Pair]:
        """All pairs once, in an order whose every beginning keeps to the weights as long as the sources last."""
        rng = self._rng("draw")
        queues = [self._balanced(pairs, rng) for pairs in sources]
        taken = [0] * len(queues)
        mixed: list[Pair] = []
        while any(queues) and (self.limit is None or len(mixed) < self.limit):
            left = [i for i, queue in enumerate(queues) if queue]
            chosen = min(left, key=lambda i: ((taken[i] + 1) / self.sources[i].weight, i))
            taken[chosen] += 1
            mixed.append(queues[chosen].pop())
            if len(left) < len(queues) and self.limit is None:
                break  # a source ran out: going on would bend the weights
        return mixed

    def _balanced(self, pairs: list[Pair], rng: random.Random) -> list[Pair]:
        """The pairs in random order, or with the cultures taking turns."""
        pairs = list(pairs)
        rng.shuffle(pairs)
        if not self.balance_cultures:
            return pairs
        groups: dict[str, list[Pair]] = defaultdict(list)
        for pair in pairs:
            groups[pair.culture].append(pair)
        least = min(map(len, groups.values()), default=0)
        return [group[turn] for turn in range(least) for group in groups.values()]

    def _by_lot(self, pair: Pair) -> Pair:
        digest = hashlib.sha256(f"{self.seed}\0lot\0{pair.id}".encode()).digest()
        if digest[0] % 2:
            return pair
        return pair.model_copy(update={"chosen": pair.rejected, "rejected": pair.chosen})


def ordered(pairs: Sequence[Pair], *, seed: int = 0, shuffle: bool = True) -> list[OrderedPair]:
    """Every pair in both orders; shuffled so that the two orders of a pair do not meet in one batch by rule."""
    rows = [order for pair in pairs for order in both_orders(pair)]
    if shuffle:
        random.Random(f"{seed}\0orders").shuffle(rows)
    return rows
