"""What has been asked and answered: nothing is paid for twice, whatever interrupts a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from carb_data.errors import CarbError
from carb_data.journal import Journal, whole_lines


def request_key(**content: Any) -> str:
    """sha256 (hex) of a request's content, whatever the order of its fields."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AnswerJournal:
    """Answers by request, in a journal; without a path, in memory only. An answer is on disk before ``put`` returns."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._answers: dict[str, Any] = {}
        self._journal = None
        if path is None:
            return
        self._journal = Journal(path)
        try:
            self._answers = _read(path, self._journal.lines)
        except BaseException:
            self._journal.close()
            raise

    def get(self, key: str) -> Any | None:
        """The answer to an earlier request, or None."""
        return self._answers.get(key)

    def put(self, key: str, answer: Any) -> None:
        """Keep an answer."""
        self._answers[key] = answer
        if self._journal is not None:
            self._journal.append([json.dumps({"key": key, "answer": answer}, ensure_ascii=True).encode()])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            self._journal.close()


def count_answers(path: Path) -> int:
    """How many answers a journal holds; it may be in use.

    Raises:
        CarbError: it is no journal of answers.
    """
    return len(_read(path, whole_lines(path)))


def _read(path: Path, lines: Sequence[bytes]) -> dict[str, Any]:
    answers = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            answers[entry["key"]] = entry["answer"]
        except (ValueError, KeyError, TypeError):
            raise CarbError(
                f"Line {number} of {path} is not a journal entry; name another journal, or remove that line."
            ) from None
    return answers
