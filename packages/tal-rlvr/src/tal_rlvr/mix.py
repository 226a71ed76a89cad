"""Training data of a judge: sources of preferences, weighed, balanced, ordered, and split."""

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from carb_data import BonSet, CarbError, Dataset, Frozen, load
from tal_rlvr.layouts import Form, read_pairs
from tal_rlvr.preferences import OrderedPair, Pair, both_orders, pairs_from_set

Pairs = list[Pair]


class MixSource(Frozen):
    """One source of preferences."""

    model_config = ConfigDict(allow_inf_nan=False)

    form: Form
    path: str
    weight: PositiveFloat = 1.0
    """Share of this source in the mix, relative to the other sources' weights."""
    culture: str | None = None
    """Culture of what names none."""
    language: str | None = None
    """Language of what names none."""
    skip_bad: NonNegativeFloat = 0
    """Rows of ``carb`` that may be left out since they make no pair, or which share below 1."""
    languages: tuple[str, ...] = ()
    """Keep pairs in these languages only; all when empty."""

    @property
    def given(self) -> dict[str, Any]:
        """Values that the sets lack, and how many bad rows may be left out."""
        return self.model_dump(include={"culture", "language", "skip_bad"}, exclude_none=True)

    def read(self) -> Pairs:
        """All pairs of the source.

        Raises:
            CarbError: the source cannot be read.
        """
        pairs = read_pairs(self.form, self.path, **self.given)
        if not self.languages:
            return pairs
        return [pair for pair in pairs if pair.language in self.languages]


class Parts(NamedTuple):
    """Training pairs, held-out pairs, and pairs for evaluation during training; no source item is
    in two parts."""

    train: Pairs
    held_out: Pairs
    dev: Pairs


class SourceAccount(Frozen):
    """The pairs of one source, by their use."""

    source: str
    read: int
    thinned: int
    """Left out by ``per_item``."""
    held_out: int
    """Kept for an evaluation, during training or around it."""
    drawn: int
    """Training pairs with repetitions."""
    wanted_share: float
    share: float


class MixAccount(Frozen):
    """Every pair by its use; ``mix.json`` of a run."""

    sources: tuple[SourceAccount, ...]
    cultures: dict[str, int]
    """Training pairs of each culture, as often as they were drawn."""
    pairs_sha256: str
    """SHA-256 of all pairs of the sources, texts included."""

    def notes(self) -> list[str]:
        """Sentences about shares that differ from the weights by more than 5 points."""
        return [
            f"{source.source} has {source.share:.0%} of the training pairs; its weight asks for "
            f"{source.wanted_share:.0%} (repeats)."
            for source in self.sources
            if abs(source.share - source.wanted_share) > 0.05
        ]


class TrainingMix(Frozen):
    """Sources and how they are mixed."""

    sources: Annotated[tuple[MixSource, ...], Field(min_length=1)]
    held_out: float = Field(default=0.2, ge=0, lt=1)
    """Share of source items kept for the evaluation before and after training."""
    dev: float = Field(default=0.0, ge=0, lt=1)
    """Share of source items kept for evaluation during training (``[grpo] eval_strategy``): so the
    choice of a checkpoint does not depend on the held-out ones."""
    balance_cultures: bool = False
    """Draw the cultures of each source in turns, as long as they last; without it they occur as
    often as in the sources."""
    repeats: PositiveInt = 1
    """How often a pair of a source or culture that is too small for its weight may be drawn. Every
    pair of the others is used all the same: weights hold as long as the sources last. ``mix.json``
    lists what became of each source, and how often each culture was drawn."""
    held_out_limit: PositiveInt | None = None
    per_item: PositiveInt | None = None
    """Largest number of pairs of one source item and culture."""
    seed: int = 0
    """Seed of every random draw of the mix."""

    @model_validator(mode="after")
    def _leaves_some(self) -> Self:
        if self.held_out + self.dev >= 1:
            raise ValueError("held_out and dev together leave nothing to train on: lower them")
        return self

    def mixed(self) -> tuple[Parts, MixAccount]:
        """Read, split by source item, weigh, balance, order; with an account of every pair.

        A source item goes where the hash of the seed and its name falls.

        Raises:
            CarbError: a source cannot be read, or a part is empty.
        """
        read = [source.read() for source in self.sources]
        names = Counter(pair.id for pair in chain(*read))
        for name, count in names.most_common(1):
            if count > 1:  # every account of a run knows a pair by its id
                raise CarbError(f"[mix] sources: {count} pairs have the id '{name}'. Rename them.")
        thinned = [self._thinned(pairs) for pairs in read]
        train: list[Pairs] = []
        held_out: Pairs = []
        dev: Pairs = []
        for pairs in thinned:
            train.append([])
            for pair in pairs:
                share = self._share(pair)
                if share < self.held_out:
                    held_out.append(pair)
                elif share < self.held_out + self.dev:
                    dev.append(pair)
                else:
                    train[-1].append(pair)
        mixed = self._draw(train)
        if not mixed:
            raise CarbError("The mix has no training pair; lower held_out or add sources.")
        account = self._account(read, thinned, train, mixed)
        self._rng("held-out").shuffle(held_out)
        most = self.held_out_limit
        return Parts(mixed, held_out[:most], dev[:most]), account

    def held_out_sets(self, held_out: Sequence[Pair]) -> Dataset | None:
        """The sets of the held-out pairs; null where no source holds sets."""
        ids = {pair.id for pair in held_out}
        kept: dict[str, BonSet] = {}
        for source in self.sources:
            if source.form != "carb":
                continue
            for item in load(source.path, **source.given):
                if any(pair.id in ids for pair in pairs_from_set(item)):
                    kept[item.id] = item
        return Dataset(kept.values()) if kept else None

    def _account(
        self,
        read: list[Pairs],
        thinned: list[Pairs],
        train: list[Pairs],
        mixed: Pairs,
    ) -> MixAccount:
        drawn = Counter(pair.id for pair in mixed)
        weights = sum(source.weight for source in self.sources)
        sources = []
        of_sources = zip(self.sources, read, thinned, train, strict=True)
        for source, all_pairs, kept, trained in of_sources:
            times = sum(drawn[pair.id] for pair in trained)
            sources.append(
                SourceAccount(
                    source=f"{source.form}:{source.path}",
                    read=len(all_pairs),
                    thinned=len(all_pairs) - len(kept),
                    held_out=len(kept) - len(trained),
                    drawn=times,
                    wanted_share=source.weight / weights,
                    share=times / len(mixed),
                )
            )
        digest = hashlib.sha256()
        for pair in chain(*read):
            digest.update(pair.model_dump_json().encode("utf-8", "surrogatepass"))
        return MixAccount(
            pairs_sha256=digest.hexdigest(),
            sources=tuple(sources),
            cultures=Counter(pair.culture for pair in mixed),
        )

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}\0{purpose}")

    def _thinned(self, pairs: Sequence[Pair]) -> Pairs:
        if self.per_item is None:
            return list(pairs)
        groups: dict[tuple[str, str, str], Pairs] = defaultdict(list)
        for pair in pairs:
            groups[pair.source_item, pair.culture, pair.language].append(pair)
        rng = self._rng("per-item")
        kept = []
        for group in groups.values():
            count = min(self.per_item, len(group))
            kept += rng.sample(group, count)
        return kept

    def _share(self, pair: Pair) -> float:
        """A number from 0 to 1 for each source item, which decides the item's part."""
        digest = hashlib.sha256(f"{self.seed}\0{pair.source_item}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    def _draw(self, sources: list[Pairs]) -> Pairs:
        """The sources' pairs in order. Up to any place the shares follow the weights, until a
        source runs out."""
        rng = self._rng("draw")
        weights = [source.weight for source in self.sources]
        queues = [self._balanced(pairs, rng) for pairs in sources]
        return self._interleaved(queues, weights, rng)

    def _balanced(self, pairs: Pairs, rng: random.Random) -> Pairs:
        """The pairs in random order, or with the cultures taking turns as long as they last."""
        if not self.balance_cultures:
            return rng.sample(pairs, len(pairs))
        groups: dict[str, Pairs] = defaultdict(list)
        for pair in pairs:
            groups[pair.culture].append(pair)
        queues = [rng.sample(group, len(group)) for group in groups.values()]
        equal = [1.0] * len(queues)
        return self._interleaved(queues, equal, rng)

    def _interleaved(
        self,
        queues: list[Pairs],
        weights: list[float],
        rng: random.Random,
    ) -> Pairs:
        """Pairs of every queue, the least drawn by its weight next.

        Each queue gives what its weight asks for beside the largest, as far as ``repeats`` allows.
        """
        pairs = list(zip(queues, weights, strict=True))
        sizes = [len(queue) / weight for queue, weight in pairs]
        scale = max(sizes, default=0.0)
        left = []
        for queue, weight in pairs:
            quota = max(round(scale * weight), len(queue))
            most = self.repeats * len(queue)
            left.append(_repeated(queue, min(quota, most), rng))
        taken = [0] * len(left)
        mixed: Pairs = []
        while len(mixed) < sum(map(len, left)):
            open_queues = [i for i, queue in enumerate(left) if taken[i] < len(queue)]
            chosen = min(open_queues, key=lambda i: (taken[i] + 1) / weights[i])
            mixed.append(left[chosen][taken[chosen]])
            taken[chosen] += 1
        return mixed


def _repeated(queue: Pairs, count: int, rng: random.Random) -> Pairs:
    """The queue's first ``count`` pairs. If it has fewer, its pairs are repeated in a new order."""
    drawn = queue[:count]
    while queue and len(drawn) < count:
        lacking = count - len(drawn)
        drawn += rng.sample(queue, min(len(queue), lacking))
    return drawn


def ordered(
    pairs: Sequence[Pair],
    *,
    seed: int = 0,
    shuffle: bool = True,
) -> list[OrderedPair]:
    """Every pair in both orders; shuffled so that the two orders of a pair do not meet in one batch
    by rule."""
    rows = [row for pair in pairs for row in both_orders(pair)]
    if shuffle:
        random.Random(f"{seed}\0orders").shuffle(rows)
    return rows
