"""A review in the files of Label Studio and Argilla, and their answers. Nothing of either needs to be installed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

from carb_cli.output import write
from carb_cli.review import recording
from carb_cli.review.answers import Person
from carb_cli.review.collecting import Collected, summary
from carb_cli.review.items import ReviewItem
from carb_cli.review.order import shown_order
from carb_cli.review.rows import UNKNOWN, WRONG_QUESTION, AnswerRow, admit, record_rows
from carb_cli.review.store import transaction
from carb_data import CarbError

__all__ = ["Tool", "export_to", "import_from"]

Tool = Literal["label-studio", "argilla"]
ON = ("region", "generation", "religion", "other")
TITLES = {
    "best": "Which answer is best where you live? ? = I don't know, x = this question is wrong",
    "right": "Which other answers are right here too?",
    "depends": "Which answers depend on region, generation, religion or something else?",
    "on": "On what do they depend?",
    "unnatural": "Which answers do not read naturally?",
    "which": "Which region, generation or religion?",
    "source": "Source (optional)",
    "comment": "Comment (optional)",
}
SEVERAL, FREE = ("right", "depends", "unnatural"), ("which", "source", "comment")


def export_to(tool: Tool, items: Sequence[ReviewItem], folder: Path) -> int:
    """Write the choices for a tool.

    Label Studio: ``tasks.json`` and ``labeling.xml``, the labelling interface. Argilla: the folder that
    ``rg.Dataset.from_disk`` reads.

    Args:
        tool: the tool to write for: ``label-studio`` or ``argilla``.
        items: the items; versions are left out.
        folder: the folder to write into; it is made if it does not exist.

    Returns:
        How many items were written.
    """
    chosen = [(item, shown_order(item)) for item in items if item.kind == "choice"]
    widest = max(len(shown) for _, shown in chosen)
    files = _label_studio(chosen, widest) if tool == "label-studio" else _argilla(chosen, widest)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
        write(folder / name, text)
    return len(chosen)


def _fields(item: ReviewItem, shown: Sequence[str]) -> dict[str, str]:
    texts = {option.token: option.text for option in item.options}
    question = "\n".join(turn.text for turn in item.turns)
    return {"question": question} | {f"answer_{n}": texts[token] for n, token in enumerate(shown, start=1)}


def _label_studio(chosen: Sequence[tuple[ReviewItem, Sequence[str]]], widest: int) -> dict[str, Any]:
    places = [str(n) for n in range(1, widest + 1)]
    lines = ["<View>", '  <Text name="question" value="$question"/>']
    for n in places:
        lines += [f'  <Header value="{n}"/>', f'  <Text name="answer_{n}" value="$answer_{n}"/>']

    def choices(name: str, values: Sequence[str], several: bool) -> list[str]:
        kind = "multiple" if several else "single-radio"
        need = "" if several else ' required="true"'
        inside = [f"    <Choice value={quoteattr(value)}/>" for value in values]
        head = f"  <Header value={quoteattr(TITLES[name])}/>"
        return [head, f'  <Choices name="{name}" toName="question" choice="{kind}"{need}>', *inside, "  </Choices>"]

    lines += choices("best", [*places, UNKNOWN, WRONG_QUESTION], several=False)
    for name in SEVERAL:
        lines += choices(name, places, several=True)
    lines += choices("on", ON, several=True)
    for name in FREE:
        lines += [f"  <Header value={quoteattr(TITLES[name])}/>", f'  <TextArea name="{name}" toName="question"/>']
    empty = {f"answer_{n}": "" for n in places}
    tasks = [{"data": empty | _fields(item, shown) | {"item": item.id, "shown": list(shown)}} for item, shown in chosen]
    return {"labeling.xml": "\n".join([*lines, "</View>", ""]), "tasks.json": tasks}


def _argilla(chosen: Sequence[tuple[ReviewItem, Sequence[str]]], widest: int) -> dict[str, Any]:
    places = [str(n) for n in range(1, widest + 1)]

    def options(values: Sequence[str]) -> list[dict[str, Any]]:
        return [{"value": value, "text": value, "description": None} for value in values]

    def question(name: str, settings: dict[str, Any], required: bool = False) -> dict[str, Any]:
        return {"name": name, "title": TITLES[name], "description": None, "required": required, "settings": settings}

    single = {
        "type": "label_selection",
        "options": options([*places, UNKNOWN, WRONG_QUESTION]),
        "visible_options": None,
    }
    questions = [question("best", single, required=True)]
    for name in (*SEVERAL, "on"):
        values = ON if name == "on" else places
        several = {"type": "multi_label_selection", "options": options(values), "visible_options": None}
        questions.append(question(name, several | {"options_order": "natural"}))
    questions += [question(name, {"type": "text", "use_markdown": False}) for name in FREE]
    names = ["question", *(f"answer_{n}" for n in places)]
    text = {"type": "text", "use_markdown": False}
    fields = [
        {"name": name, "title": name.replace("_", " "), "required": place < 3, "settings": text}
        for place, name in enumerate(names)
    ]
    metadata = [
        {"name": name, "title": name, "settings": {"type": "terms", "values": None}, "visible_for_annotators": False}
        for name in ("item", "shown")
    ]
    settings = {
        "guidelines": "Answer for the place where you live.",
        "allow_extra_metadata": False,
        "distribution": {"strategy": "overlap", "min_submitted": 3},
        "fields": fields,
        "questions": questions,
        "metadata": metadata,
        "vectors": [],
    }
    records = [
        {"id": item.id, "fields": _fields(item, shown), "metadata": {"item": item.id, "shown": " ".join(shown)}}
        for item, shown in chosen
    ]
    dataset = {"name": "carb-review", "status": "draft"}
    return {".argilla/settings.json": settings, ".argilla/dataset.json": dataset, "records.json": records}


def import_from(tool: Tool, db: sqlite3.Connection, path: Path) -> Collected:
    """Add the answers of a tool's export; the same export twice adds nothing.

    Args:
        tool: the tool that wrote the file: ``label-studio`` or ``argilla``.
        db: the open review file.
        path: Label Studio's JSON export, or Argilla's ``records.json`` or the folder that holds it.

    Raises:
        CarbError: the file is not such an export.
    """
    if tool == "argilla" and path.is_dir():
        path = path / "records.json"
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, list):
            raise ValueError("it is not a list")
        rows = list(_label_studio_rows(content) if tool == "label-studio" else _argilla_rows(content))
    except OSError as error:
        raise CarbError(f"{path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CarbError(f"{path} is no export of {tool} of this review: {type(error).__name__} {error}.") from None
    known = recording.items(db)
    outcomes = []
    by_person: dict[str, list[tuple[str, AnswerRow]]] = defaultdict(list)
    for person, where, row in rows:
        by_person[person].append((where, row))
    with transaction(db):
        for person, mine in by_person.items():
            reviewer = hashlib.sha256(f"{tool}\0{person}".encode()).hexdigest()[:16]
            admit(db, reviewer, Person(name=f"{tool} {reviewer[:4]}", consent=1))
            outcomes += record_rows(db, reviewer, mine, known)
    return summary(1, len(by_person), outcomes)


def _label_studio_rows(tasks: list[Any]) -> list[tuple[str, str, AnswerRow]]:
    found = []
    for number, task in enumerate(tasks, start=1):
        for annotation in task.get("annotations", []):
            if annotation.get("was_cancelled"):
                continue
            values: dict[str, list[str]] = {}
            for part in annotation["result"]:
                values[part["from_name"]] = list(part["value"].get("choices") or part["value"].get("text") or [])
            person = annotation.get("completed_by")
            if isinstance(person, dict):
                person = person.get("id", person.get("email"))
            data = task["data"]
            seconds = float(annotation.get("lead_time") or 0)
            row = _row(str(data["item"]), tuple(data["shown"]), values, seconds)
            found.append((str(person), f"task {number}", row))
    return found


def _argilla_rows(records: list[Any]) -> list[tuple[str, str, AnswerRow]]:
    found = []
    for number, record in enumerate(records, start=1):
        people: dict[str, dict[str, list[str]]] = defaultdict(dict)
        for name, responses in (record.get("responses") or {}).items():
            for response in responses:
                value = response["value"]
                people[str(response["user_id"])][name] = value if isinstance(value, list) else [str(value)]
        metadata = record["metadata"]
        for person, values in people.items():
            row = _row(str(metadata["item"]), tuple(metadata["shown"].split()), values, 0)
            found.append((person, f"record {number}", row))
    return found


def _row(item: str, shown: tuple[str, ...], values: dict[str, list[str]], seconds: float) -> AnswerRow:
    places = {name: tuple(int(value) for value in values.get(name, [])) for name in SEVERAL}
    free = {name: " ".join(values.get(name, [])) for name in FREE}
    return AnswerRow.model_validate(
        {
            "item": item,
            "shown": shown,
            "best": values["best"][0] if values.get("best") else "",
            "on": tuple(values.get("on", [])),
            "seconds": seconds,
            **places,
            **free,
        }
    )
