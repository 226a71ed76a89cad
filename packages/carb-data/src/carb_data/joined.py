"""Names that stand for the same thing, directly or through others."""

from collections.abc import Hashable


class Joined:
    """Disjoint sets of names (union-find); a name that was never joined stands for itself."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._first: dict[Hashable, str] = {}

    def join(self, one: str, other: str) -> None:
        """Say that both names stand for the same thing."""
        first = self.name(one)
        second = self.name(other)
        if first != second:
            self._parent[max(first, second)] = min(first, second)

    def tie(self, name: str, tie: Hashable) -> None:
        """Join a name with all that were given the same tie; null ties nothing."""
        if tie is not None:
            self.join(self._first.setdefault(tie, name), name)

    def name(self, one: str) -> str:
        """The least of all names that stand for the same thing as ``one``."""
        root = one
        while root in self._parent:
            root = self._parent[root]
        while one != root:  # shorten the way for the next time
            parent = self._parent[one]
            self._parent[one] = root
            one = parent
        return root
