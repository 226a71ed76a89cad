"""CARB's listwise question as tasks of lm-evaluation-harness (0.4), word for word as ``carb run``
asks it.

    python examples/lm_eval/write_tasks.py --data carb-seed --out tasks
    lm_eval --model hf --model_args pretrained=MODEL --include_path tasks --tasks carb
    --apply_chat_template

A task is multiple choice among letters by their log-probability, as
``judge:MODEL?mode=listwise&read=logprob`` reads them: item by item both pick the same answer.
``carb`` is for chat models, ``carb_base`` for models without a chat template. Take ``carb run``
where you can: it has intervals, families, both orders, and error rows.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from carb_data import Dataset, load
from carb_scorers.blind import blind
from carb_scorers.judge import Asker, read_form
from carb_scorers.judge.order_and_prompt import LETTERS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="carb-seed")
    parser.add_argument("--out", type=Path, default=Path("tasks"))
    parser.add_argument("--form", default="plain", help="a form of judging with one user message")
    parser.add_argument("--language", default="en", help="of the instructions, or 'item'")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the order of answers, as for carb run"
    )
    given = parser.parse_args()
    rows = questions(load(given.data), given.form, given.language, given.seed)
    print("\n".join(write(rows, given.out)))
    return 0


def questions(data: Dataset, form: str, language: str, seed: int) -> list[dict[str, object]]:
    """The question on each set, with its answers as ``carb run`` orders them."""
    asker = Asker(read_form(form), "listwise", language)
    rows = []
    for item in data:
        blinded = next(blind(item, seed=seed, comparative=True))
        candidates = blinded.request.candidates
        letters = LETTERS[: len(candidates)]
        prompt = asker.ask(blinded.request, [one.text for one in candidates], reads=True)
        if len(prompt.messages) != 1:
            sys.exit(
                f"--form {form} has a system message; lm-evaluation-harness takes it on its "
                "command line."
            )
        rows.append(
            {
                "item_id": item.id,
                "culture": item.culture,
                "domain": str(item.domain),
                "question": prompt.messages[0].content,
                "cue": prompt.cue,
                "letters": list(letters),
                "right": [blinded.recorded[one.id] for one in candidates].index(item.chosen.id),
            }
        )
    return rows


def write(rows: list[dict[str, object]], folder: Path, name: str = "carb") -> list[str]:
    """Write the questions and both tasks; returns the tasks' names."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder.resolve() / f"{name}.jsonl"
    file.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    tasks = {name: ("{{question}}", ""), f"{name}_base": ("{{question}}{{cue}}", " ")}
    for task, (text, delimiter) in tasks.items():
        content = {
            "task": task,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(file)}},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": text,
            "doc_to_choice": "letters",
            "doc_to_target": "right",
            "target_delimiter": delimiter,
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
            "metadata": {"version": 1},
        }
        (folder / f"{task}.yaml").write_text(
            json.dumps(content, indent=1) + "\n", encoding="utf-8"
        )  # JSON is YAML
    return list(tasks)


if __name__ == "__main__":
    sys.exit(main())
