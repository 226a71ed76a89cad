"""Fetch the published files of open sources: pinned, checked, resumed, kept in a cache (extra ``fetch``)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from carb_data.errors import CarbError
from carb_data.extras import require
from carb_data.models import Frozen
from carb_data.sources.published import Published, PublishedFile, cache_folder, published

__all__ = ["ADDRESS", "Fetched", "fetch"]

ADDRESS = "https://raw.githubusercontent.com"
_RECORD = ".fetched.json"
"""Hashes of files for which none is known here, as they were first fetched."""
_CHUNK = 1 << 16
_TIMEOUT = (10, 60)
"""Seconds to connect, and between two pieces."""


class Fetched(Frozen):
    """What was fetched."""

    source: str
    folder: str
    license: str
    repository: str
    commit: str
    files: int
    new: int
    """Files that were not there already."""
    bytes: int
    """Size of all files."""


def fetch(
    name: str,
    *,
    accept: bool = False,
    mirror: str = ADDRESS,
    retries: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Fetched:
    """Fetch the files of a source into the cache; files that are there, with the right hash, are not fetched again.

    Args:
        name: The name of an open source.
        accept: whether to take files for which nobody granted a licence.
        mirror: the address before ``/owner/name/commit/path``.
        retries: The number of further attempts after a failed download.
        progress: the function that is called after each file with the numbers of files done and in all.

    Raises:
        CarbError: no such source, no licence and not accepted, not found, interrupted, or another content than pinned.
        MissingExtraError: pooch is not installed.
    """
    found = published(name)
    if found.must_be_accepted and not accept:
        raise CarbError(
            f"{found.repository} states no licence. If you may use its data, say so: carb data fetch {name} --accept"
        )
    pooch = require("pooch", package="carb-data", extra="fetch")
    pooch.get_logger().setLevel("ERROR")
    folder = cache_folder() / "sources" / name
    folder.mkdir(parents=True, exist_ok=True)
    record = _Record(folder / _RECORD)
    new = 0
    for number, file in enumerate(found.files, 1):
        new += _one(pooch, found, file, folder, record, mirror, retries)
        if progress is not None:
            progress(number, len(found.files))
    return Fetched(
        source=name,
        folder=str(folder),
        license=found.license,
        repository=found.repository,
        commit=found.commit,
        files=len(found.files),
        new=new,
        bytes=sum((folder / file.place).stat().st_size for file in found.files),
    )


def _one(
    pooch: Any, found: Published, file: PublishedFile, folder: Path, record: _Record, mirror: str, retries: int
) -> bool:
    """Fetch one file unless it is there; whether it was fetched."""
    if PurePosixPath(file.place).is_absolute() or ".." in PurePosixPath(file.place).parts:
        raise CarbError(f"{file.place} would be put outside of the source's folder.")
    place = folder / file.place
    url = f"{mirror.rstrip('/')}/{found.repository}/{found.commit}/{quote(file.path)}"
    known = file.sha256 or record.hashes.get(file.place)
    if place.exists() and known is not None and pooch.file_hash(str(place)) == known:
        return False
    try:
        pooch.core.stream_download(
            url, place, known and f"sha256:{known}", _resume_from(place, known), retry_if_failed=retries
        )
    except ValueError:
        raise CarbError(
            f"{url} is not the file that was pinned: its sha256 is not {known}. Nothing was kept; the source has "
            "changed, or a proxy changed the file."
        ) from None
    except OSError as error:  # requests' errors are OSErrors
        raise CarbError(
            f"Cannot fetch {url}: {error}. Run the same command again; it goes on where it stopped."
        ) from None
    if file.sha256 is None:
        record.add(file.place, pooch.file_hash(str(place)))
    return True


def _resume_from(place: Path, known: str | None) -> Callable[[str, str, Any], None]:
    """A downloader for pooch that keeps what arrived before an interruption in ``place`` with ``.part``, and goes on
    from there. Without a known hash nothing would show that the parts belong together, so it begins again."""
    part = place.with_name(f"{place.name}.part")

    def download(url: str, output_file: str, _: Any) -> None:
        requests = require("requests", package="carb-data", extra="fetch")
        if known is None:
            part.unlink(missing_ok=True)
        start = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code == 416:  # the part is as long as the file, or longer
                part.unlink()
                raise requests.exceptions.ConnectionError("what was kept of an earlier download does not fit")
            response.raise_for_status()
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            with part.open("ab" if response.status_code == 206 and goes_on else "wb") as file:
                for piece in response.iter_content(_CHUNK):
                    file.write(piece)
        part.replace(output_file)

    return download


class _Record:
    """Hashes of files as they were first fetched."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.hashes: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def add(self, place: str, sha256: str) -> None:
        """Record a hash, on disk at once."""
        self.hashes[place] = sha256
        draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        draft.write_text(json.dumps(self.hashes, indent=1, sort_keys=True), encoding="utf-8")
        draft.replace(self._file)
