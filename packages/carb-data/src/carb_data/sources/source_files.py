"""The files of a source: where they lie on this machine, how they are read and fetched (extra
``fetch``)."""

import os
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from carb_data.declaration import Declaration, Published, PublishedFile, shipped
from carb_data.errors import CarbError, require
from carb_data.models import Frozen
from carb_data.table_sets import Progress, silent
from carb_data.validation import closest

__all__ = ["Fetched", "fetch", "fetchable"]

ADDRESS = "https://raw.githubusercontent.com"
DATA_DIR = "CARB_DATA_DIR"
CACHE = "CARB_CACHE"
"""Environment variables: a folder with a folder for each source, and where fetched files are
kept."""
_TIMEOUT = 60
"""Seconds to connect, and between two pieces of a file."""


class Fetched(Frozen):
    """A fetched file."""

    source: str
    folder: str
    license: str
    files: int
    new: int
    """Files that were not there already."""


def fetchable() -> dict[str, Declaration]:
    """The sources whose files have a public address."""
    return {
        name: declaration
        for name, declaration in shipped().items()
        if declaration.published is not None
    }


def cache_folder() -> Path:
    """Where fetched files are kept: ``CARB_CACHE``, or ``carb`` in the user's cache folder."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "carb"


def find_files(name: str) -> Path:
    """The folder with the files of a source: in ``CARB_DATA_DIR`` (or a folder in it), else in the
    cache.

    Raises:
        CarbError: they are in neither; the message gives the command to run.
    """
    folders = [cache_folder() / "sources" / name]
    if given := os.environ.get(DATA_DIR):
        deeper = Path(given).glob(f"*/{name}")
        folders = [Path(given, name), *sorted(deeper), *folders]
    for folder in folders:
        if folder.is_dir():
            return folder
    if name in fetchable():
        raise CarbError(
            f"The files of '{name}' are not on this machine. Run: carb data fetch {name}"
        )
    raise CarbError(
        f"'{name}' has no public address; give the folder or file that holds its data: "
        "--source PATH."
    )


def read_text(file: Path, source: str) -> str:
    """A text file in UTF-8, with or without a byte order mark.

    Raises:
        CarbError: the file is missing or not UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CarbError(f"{file} of {source} is not UTF-8 text.") from None
    except OSError as error:
        raise CarbError(f"Cannot read {file} of {source}: {error.strerror or error}.") from None


def fetch(
    name: str,
    *,
    accept_no_licence: bool = False,
    mirror: str = ADDRESS,
    progress: Progress = silent,
) -> Fetched:
    """Fetch the files of a source into the cache; a file that is there with the right sha256 is not
    fetched again.

    Args:
        name: The name of a source with a public address.
        accept_no_licence: Whether to take files for which nobody granted a licence.
        mirror: The address before ``/owner/name/commit/path``.
        progress: The function that is called after each file with the numbers of files done and in
            all.

    Raises:
        CarbError: no such source, no licence and not accepted, not found, interrupted, or another
            content than pinned.
        MissingExtraError: pooch is not installed.
    """
    known = fetchable()
    if name not in known:
        raise CarbError(
            f"'{name}' is not fetched from a public address.{closest(name, known)} These are: "
            f"{', '.join(known)}. For others give the folder or file that you have: --source PATH."
        )
    declaration = known[name]
    published = declaration.published
    assert published is not None  # that is what ``fetchable`` means
    if declaration.needs_consent and not accept_no_licence:
        raise CarbError(
            f"{published.repository} states no licence, so its files come without permission to "
            f"use them. If you may use them, run: carb data fetch {name} --accept-no-licence"
        )
    folder = cache_folder() / "sources" / name
    count = len(published.files)
    new = 0
    for number, file in enumerate(published.files, 1):
        new += _fetch_one(published, file, folder, mirror)
        progress(number, count)
    return Fetched(
        source=name,
        folder=str(folder),
        license=declaration.license,
        files=count,
        new=new,
    )


def _fetch_one(
    published: Published,
    file: PublishedFile,
    folder: Path,
    mirror: str,
) -> bool:
    """Fetch one file unless it is there; whether it was fetched."""
    path = PurePosixPath(file.kept_as)
    if path.is_absolute() or ".." in path.parts:
        raise CarbError(f"{file.kept_as} would be put outside of the source's folder.")
    pooch = require("pooch", "carb-data[fetch]")
    pooch.get_logger().setLevel("ERROR")
    target = folder / file.kept_as
    if target.exists() and pooch.file_hash(str(target)) == file.sha256:
        return False
    url = f"{mirror.rstrip('/')}/{published.repository}/{published.commit}/{quote(file.path)}"
    try:
        pooch.retrieve(
            url,
            f"sha256:{file.sha256}",
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
        )
    except ValueError:
        raise CarbError(
            f"{url} is not the file that was pinned: its sha256 is not {file.sha256}. "
            "Nothing was kept; the source has changed, or a proxy changed the file."
        ) from None
    except OSError as error:  # requests' errors are OSErrors
        what = f"fetch {url}"
        remedy = "Run the same command again; files that are there are not fetched again."
        if error.filename is not None:
            what = f"write {error.filename}"
            remedy = f"Name another folder in the environment variable {CACHE}."
        raise CarbError(f"Cannot {what}: {error}. {remedy}") from None
    return True
