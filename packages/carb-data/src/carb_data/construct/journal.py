"""What has been asked and answered: nothing is paid for twice, whatever interrupts a run."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from carb_data.errors import CarbError


def request_key(**content: Any) -> str:
    """sha256 (hex) of a request's content, whatever the order of its fields."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Journal:
    """Answers by request, appended to a JSON Lines file as they come; without a path, in memory only.

    An answer is on disk before ``put`` returns. A last line that an interruption cut short is dropped.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._answers: dict[str, Any] = {}
        self._file = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._read(path)
            self._file = path.open("ab")
        except OSError as error:
            raise CarbError(f"Cannot use the journal {path}: {error.strerror}.") from None

    def _read(self, path: Path) -> None:
        whole = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                    self._answers[entry["key"]] = entry["answer"]
                except (ValueError, KeyError, TypeError):
                    raise CarbError(
                        f"Line {number} of {path} is not a journal entry; name another journal, or mend this one."
                    ) from None
                whole += len(line)
        if path.stat().st_size > whole:
            os.truncate(path, whole)

    def get(self, key: str) -> Any | None:
        """The answer to an earlier request, or None."""
        return self._answers.get(key)

    def put(self, key: str, answer: Any) -> None:
        """Keep an answer."""
        self._answers[key] = answer
        if self._file is not None:
            line = json.dumps({"key": key, "answer": answer}, ensure_ascii=True)
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def __len__(self) -> int:
        return len(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
