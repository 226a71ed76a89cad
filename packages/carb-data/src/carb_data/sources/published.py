"""Where the files of open sources are published, and where they lie on this machine."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import Field, TypeAdapter

from carb_data.errors import CarbError
from carb_data.models import Frozen
from carb_data.options import closest

__all__ = ["Published", "PublishedFile", "cache_folder", "find_files", "published", "published_names"]

DATA_DIR, CACHE = "CARB_DATA_DIR", "CARB_CACHE"
"""Environment variables: a folder with a folder for each source, and where fetched files are kept."""


class PublishedFile(Frozen):
    """A file of a repository."""

    path: str
    name: str | None = Field(None, alias="as")
    """Where it is put in the source's folder; null for its path in the repository."""
    bytes: int | None = None
    sha256: str | None = None
    """Null where it is not known here: the first download is then trusted, its hash recorded, and a later one that
    differs refused."""

    @property
    def place(self) -> str:
        """Where it is put in the source's folder."""
        return self.name or self.path


class Published(Frozen):
    """The files of one source, at one commit of a public repository."""

    repository: str
    """Owner and name on GitHub."""
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    license: str
    files: tuple[PublishedFile, ...] = Field(min_length=1)

    @property
    def must_be_accepted(self) -> bool:
        """Whether nobody granted a licence, so that its use is for you to judge."""
        return self.license.startswith("LicenseRef-")


@cache
def _all() -> dict[str, Published]:
    text = (resources.files("carb_data") / "resources" / "published.json").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Published]).validate_json(text)


def published_names() -> tuple[str, ...]:
    """The sources whose files can be fetched."""
    return tuple(_all())


def published(name: str) -> Published:
    """Where the files of a source are published.

    Raises:
        CarbError: the source is no open one.
    """
    if name not in _all():
        raise CarbError(
            f"'{name}' is not fetched from a public address.{closest(name, _all())} These are: {', '.join(_all())}. "
            "For others give the folder or file that you have: --source PATH."
        )
    return _all()[name]


def cache_folder() -> Path:
    """Where fetched files are kept: ``CARB_CACHE``, or ``carb`` in the user's cache folder."""
    own = os.environ.get(CACHE)
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carb"


def find_files(name: str) -> Path:
    """The folder with the files of a source: in ``CARB_DATA_DIR`` (or a folder in it), else in the cache.

    Raises:
        CarbError: they are in neither; the message says what to run.
    """
    given = os.environ.get(DATA_DIR)
    places = [*([Path(given) / name, *sorted(Path(given).glob(f"*/{name}"))] if given else [])]
    for folder in (*places, cache_folder() / "sources" / name):
        if folder.is_dir():
            return folder
    if name in _all():
        raise CarbError(f"The files of '{name}' are not on this machine. Run: carb data fetch {name}")
    raise CarbError(f"'{name}' has no public address; give the folder or file that holds its data: --source PATH.")
