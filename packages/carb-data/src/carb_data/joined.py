"""Names that stand for the same thing, directly or through others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from carb_data.models import BonSet

__all__ = ["Joined", "joined_by"]


class Joined:
    """Disjoint sets of names (union-find); a name that was never joined stands for itself."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def join(self, one: str, other: str) -> None:
        """Say that both names stand for the same thing."""
        first, second = self.name(one), self.name(other)
        if first != second:
            self._parent[max(first, second)] = min(first, second)

    def name(self, one: str) -> str:
        """The least of all names that stand for the same thing as ``one``."""
        root = one
        while (parent := self._parent.get(root, root)) != root:
            root = parent
        while one != root:  # shorten the way for the next time
            self._parent[one], one = root, self._parent[one]
        return root


def joined_by(ties: Callable[[BonSet], Iterable[Hashable]], items: Iterable[BonSet]) -> Joined:
    """The source items of sets that share a tie; null ties nothing."""
    joined, first = Joined(), dict[Hashable, str]()
    for item in items:
        for tie in ties(item):
            if tie is not None:
                joined.join(first.setdefault(tie, item.source_item), item.source_item)
    return joined
