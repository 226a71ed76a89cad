"""OMGEval: open questions rewritten for a culture; a judge that sees both orders compares answers with a model's.

Liu et al. 2024, OMGEval, arXiv:2402.13524, after AlpacaEval (Li et al. 2023): the share of questions in which the
judge prefers the answer to the reference. A judge favours a position (Zheng et al. 2023, NeurIPS, section 3.4), so
each answer is shown in both and its grade is the mean: 1 won both, ½ split, 0 lost both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter

from carb_data.errors import CarbError
from carb_data.models import Frozen
from carb_data.options import closest
from carb_data.sources.source_files import read_text
from carb_data.sources.source_interface import Names
from carb_data.tasks.task import AnswerPair, Judge, Task, TaskKind, TaskPrompt, evenly
from carb_data.validation import read_file

LANGUAGES = {
    "arabic": ("arabic", "ar", "OMGEval_Arabic_local.txt"),
    "chinese": ("chinese", "zh", "OMGEval_Chinese_local.txt"),
    "russia": ("russian", "ru", "OMGEval_Russia_local.txt"),
    "spanish": ("spanish", "es", "OMGEval_Spanish_local.txt"),
}
"""Folder of answers to culture id, language, and the file of questions rewritten for the culture."""


class OmgevalTaskOptions(Frozen):
    """Options of ``omgeval:PATH``."""

    languages: Names = ("arabic", "chinese", "russia", "spanish")
    """Folders of model_outputs."""
    reference: str = "gpt3.5-turbo"
    """Whose published answers are the ones to beat."""
    limit: int | None = Field(None, ge=1)
    """Ask only this many, spread evenly over the languages."""


class _Row(BaseModel):
    instruction: str
    output: str


_Rows = TypeAdapter(list[_Row])


class OmgevalTask(Task):
    """OMGEval's questions with a reference answer to each."""

    def __init__(
        self, name: str, prompts: tuple[TaskPrompt, ...], references: Mapping[str, str], judge: Judge | None
    ) -> None:
        self.name = name
        self.prompts = prompts
        self._by_id = {prompt.id: prompt for prompt in prompts}
        self._references = dict(references)
        self._judge = judge

    def grade(self, prompt_id: str, text: str) -> float | None:
        """The share of both orders that the answer wins; null where the judge fails in one of them."""
        return self.grade_all([(prompt_id, text)])[0]

    def grade_all(self, answers: Sequence[tuple[str, str]]) -> list[float | None]:
        """The grades of many answers, asked of the judge together; an empty answer loses unseen.

        Raises:
            CarbError: the task was opened without a judge.
        """
        if self._judge is None:
            raise CarbError(f"Task '{self.name}' needs a judge: give one, for example --judge judge:MODEL.")
        asked: list[AnswerPair] = []
        for prompt_id, text in answers:
            if text.strip():
                prompt, reference = self._by_id[prompt_id], self._references[prompt_id]
                asked += [AnswerPair(prompt, text, reference), AnswerPair(prompt, reference, text)]
        verdicts = iter(self._judge(asked) if asked else ())
        grades: list[float | None] = []
        for _, text in answers:
            if not text.strip():
                grades.append(0.0)
                continue
            first, second = next(verdicts), next(verdicts)
            grades.append(None if first is None or second is None else (first + 1 - second) / 2)
        return grades


def open_omgeval(name: str, path: Path, read: OmgevalTaskOptions, judge: Judge | None) -> OmgevalTask:
    """Open ``omgeval:PATH?languages=chinese,spanish&reference=gpt4``.

    Raises:
        CarbError: an option is wrong, or the files are not OMGEval's.
    """
    prompts: list[TaskPrompt] = []
    references: dict[str, str] = {}
    for folder in dict.fromkeys(read.languages):
        if folder not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise CarbError(f"OMGEval has no answers in '{folder}'.{closest(folder, LANGUAGES)} Folders: {known}.")
        culture, language, local_file = LANGUAGES[folder]
        local = {_key(line) for line in read_text(path / "data" / local_file, "OMGEval").splitlines()} - {""}
        rows = read_file(_Rows, path / "model_outputs" / folder / f"{read.reference}.json", "file of OMGEval")
        seen: set[str] = set()
        for number, row in enumerate(rows):
            key = _key(row.instruction)
            if key in seen or key not in local or not row.output.strip():
                continue
            seen.add(key)
            prompt = TaskPrompt(
                id=f"omgeval/{folder}/{number}",
                text=row.instruction.strip(),
                culture=culture,
                language=language,
                source_item=f"omgeval:{number}",
            )
            prompts.append(prompt)
            references[prompt.id] = row.output.strip()
    return OmgevalTask(name, evenly(prompts, read.limit), references, judge)


TASK = TaskKind(OmgevalTaskOptions, open_omgeval)


def _key(text: str) -> str:
    return "".join(text.split())
