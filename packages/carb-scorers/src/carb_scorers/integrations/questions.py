"""The listwise question on every set of a data set, word for word and in the order in which ``carb run`` asks it.

It is for the tools with which people evaluate language models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from carb_data import CarbError, Dataset
from carb_scorers.blind import blind
from carb_scorers.judge.asking import Asker
from carb_scorers.judge.form_files import read_form
from carb_scorers.judge.modes import LETTERS
from carb_scorers.models.protocol import Turns

__all__ = ["ListwiseQuestion", "listwise_questions", "write_lm_eval_tasks"]


@dataclass(frozen=True, slots=True)
class ListwiseQuestion:
    """One set as a question with lettered answers."""

    item_id: str
    culture: str
    domain: str
    messages: Turns
    """What a chat model is asked."""
    cue: str
    """What comes behind the messages for a model without a chat template."""
    letters: str
    """The letters of the answers, in presented order."""
    right: int
    """The place of the right answer among them, from 0."""


def listwise_questions(
    dataset: Dataset, *, form: str = "culture", reads: bool, language: str = "en", seed: int = 0
) -> Iterator[ListwiseQuestion]:
    """The question on each set.

    Args:
        dataset: the sets to ask about; perturbed texts are left out.
        form: The name or path of a judge's form, as ``read_form`` takes it.
        reads: the letter's probability is read; else the model is asked to write a verdict.
        language: The language of the instructions, or ``item`` for each item's own.
        seed: The seed of the order of answers, as for ``carb run``.

    Raises:
        CarbError: there is no such form, it has no listwise mode, or a set has too many answers.
    """
    asker = Asker(read_form(form), "listwise", language)
    if (way := "logprob" if reads else "generate") not in asker.wording.reads:
        raise CarbError(f"form={form} cannot be read with read={way}.")
    for item in dataset:
        blinded = next(blind(item, seed=seed, comparative=True))
        candidates = blinded.request.candidates
        if len(candidates) > len(LETTERS):
            raise CarbError(f"Set '{item.id}' has {len(candidates)} answers; at most {len(LETTERS)} can be lettered.")
        letters = LETTERS[: len(candidates)]
        prompt = asker.ask(blinded.request, [c.text for c in candidates], letters, reads=reads)
        right = [blinded.recorded[c.id] for c in candidates].index(item.chosen.id)
        yield ListwiseQuestion(item.id, item.culture, str(item.domain), prompt.messages, prompt.cue, letters, right)


def write_lm_eval_tasks(
    dataset: Dataset, folder: Path, *, name: str = "carb", form: str = "culture", language: str = "en", seed: int = 0
) -> list[str]:
    """Write tasks for lm-evaluation-harness: ``lm_eval --include_path FOLDER --tasks NAME --apply_chat_template``.

    A task is multiple choice among the letters by their log-probability, as ``judge:MODEL?read=logprob`` reads them.
    ``NAME`` is for chat models (with ``--apply_chat_template``), ``NAME_base`` for models without a chat template.

    Args:
        dataset: The sets of the data set.
        folder: the folder for the tasks' YAML files and the questions as JSON Lines; it is made.
        name: The name of the task.
        form, language, seed: as for ``listwise_questions``.

    Returns:
        The names of the tasks.

    Raises:
        CarbError: as for ``listwise_questions``; or the form has a system message, which a task cannot ask with.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = folder.resolve() / f"{name}.jsonl"
    with rows.open("w", encoding="utf-8") as file:
        for question in listwise_questions(dataset, form=form, reads=True, language=language, seed=seed):
            if len(question.messages) != 1:
                raise CarbError(
                    f"form={form} has a system message; lm-evaluation-harness takes it on its command line."
                )
            row = {
                "item_id": question.item_id,
                "culture": question.culture,
                "domain": question.domain,
                "question": question.messages[0]["content"],
                "cue": question.cue,
                "letters": list(question.letters),
                "right": question.right,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    tasks = {name: ("{{question}}", ""), f"{name}_base": ("{{question}}{{cue}}", " ")}
    for task, (text, delimiter) in tasks.items():
        content = {
            "task": task,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(rows)}},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": text,
            "doc_to_choice": "letters",
            "doc_to_target": "right",
            "target_delimiter": delimiter,
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": 1},
        }
        (folder / f"{task}.yaml").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")  # JSON is YAML
    return list(tasks)
