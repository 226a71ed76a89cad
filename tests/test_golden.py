"""Numbers on small fixed inputs that a change of structure must not move.

``tests/golden/numbers.json`` holds them. A number that was found wrong changes there in the commit
that corrects it: ``CARB_GOLDEN=write pytest tests/test_golden.py`` writes the file anew, and its
diff shows what moved.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from carb_cli.main import main
from carb_data import BonSet, Dataset, Provenance, Response, ScoreTable
from carb_data.table import COLUMNS
from carb_metrics import (
    bon_accuracy,
    compare,
    correlate,
    cross_lingual_consistency,
    family_accuracy,
    perturbation_sensitivity,
    rank,
)
from tal_rlvr import correctness_reward, criteria_reward, parse_judgement, total_reward
from tal_rlvr.judge_rewards import CriteriaCase, VerdictRow

NUMBERS = Path(__file__).parent / "golden" / "numbers.json"
SCORERS = ("baseline:random", "baseline:length", "baseline:language", "baseline:label")
PLACES = (("japanese", "Osaka"), ("german", "Graz"), ("thai", "Chiang Mai"), ("english", "Leeds"))
DOMAINS = ("commonsense", "values", "safety", "linguistics")


def response(name: str, text: str, right: bool, **changes: str) -> Response:
    role = "chosen" if right else "rejected"
    return Response.model_validate(
        {"id": name, "text": text, "role": role, "language": "en"} | changes
    )


def family(number: int) -> list[BonSet]:
    """The same four answers, of different lengths, under four places; the first set is the main
    one."""
    texts = [
        f"Answer {i} to question {number}" + " and more" * ((i * number) % 4) + "."
        for i in range(4)
    ]
    return [
        BonSet(
            id=f"f{number:02}/{place}",
            culture=culture,
            domain=DOMAINS[number % 4],
            topic=f"topic-{number % 6}",
            language="en",
            prompt=f"What do people in {name} say to question {number}?",
            responses=tuple(response(f"r{i}", text, i == place) for i, text in enumerate(texts)),
            provenance=Provenance(source="golden", license="CC0-1.0", method="authored"),
            family=f"f{number:02}",
        )
        for place, (culture, name) in enumerate(PLACES)
    ]


def single(number: int) -> BonSet:
    """A set without mirrors whose right answer has perturbed versions."""
    culture, name = PLACES[number % 4]
    right = f"In {name} one brings {number} small gifts."
    versions = {
        "CC": f"In {name} one brings {number} large cheques.",
        "RC": f"There one brings {number} small gifts.",
        "RP": f"People in {name} come with {number} little presents.",
        "CL": f"In {name} bringt man {number} kleine Geschenke mit.",
    }
    return BonSet(
        id=f"s{number:02}",
        culture=culture,
        domain=DOMAINS[number % 4],
        topic="gifts",
        language="en",
        prompt=f"What does a guest bring in {name}, case {number}?",
        responses=(
            response("r0", right, True),
            *(response(f"r{i}", f"Nothing at all, {i} times {number}.", False) for i in (1, 2, 3)),
        ),
        perturbed=tuple(
            response(
                f"p-{kind}",
                text,
                True,
                perturbation=kind,
                original="r0",
                language="de" if kind == "CL" else "en",
            )
            for kind, text in versions.items()
        ),
        provenance=Provenance(source="golden", license="CC0-1.0", method="authored"),
    )


@pytest.fixture(scope="module")
def sets() -> Dataset:
    return Dataset(
        [
            *(item for number in range(12) for item in family(number)),
            *(single(n) for n in range(16)),
        ]
    )


def draw(*parts: object) -> float:
    """A number in [0, 1) that depends on its arguments alone."""
    return (
        int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:6], "big")
        / 2**48
    )


def scored(sets: Dataset, name: str, knowledge: float) -> ScoreTable:
    """Scores of noise and some knowledge; every ninth set fails, and scores have one digit so that
    ties happen."""
    rows = []
    for number, item in enumerate(sets):
        for one in (*item.responses, *item.perturbed):
            known = knowledge if one.role == "chosen" and one.perturbation != "CC" else 0.0
            score = round(5 * draw(name, item.id, one.id) + known, 1)
            rows.append(
                {
                    "scorer": name,
                    "item_id": item.id,
                    "response_id": one.id,
                    "role": str(one.role),
                    "culture": item.culture,
                    "domain": str(item.domain),
                    "language": one.language,
                    "perturbation": None if one.perturbation is None else str(one.perturbation),
                    "original": one.original,
                    "score": None if number % 9 == 8 and name == "first" else score,
                }
            )
    return ScoreTable(pl.DataFrame(rows, schema=COLUMNS))


def plain(value: Any) -> Any:
    """Numbers to nine significant digits, and models as plain objects."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if value == 0 or not math.isfinite(value) else float(f"{value:.9g}")
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value]


def picked(model: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(model, name) for name in names}


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the limits of its intervals in fields of their own, as the file has them."""
    found = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found |= {name: value["estimate"]}
            found |= {f"{name}_{limit}": value[limit] for limit in ("low", "high")}
        else:
            found[name] = value
    return found


def of_the_run(sets: Dataset, folder: Path) -> dict[str, Any]:
    """Scores of a run of the baselines, after a first part of it; and the report's cells."""
    data, out = folder / "sets.jsonl", folder / "run"
    sets.save(data)
    command = ["run", "--data", str(data), "--perturbed", "--out", str(out), "--scorer", *SCORERS]
    assert main(command) == 0
    table = pl.read_parquet(out / "scores.parquet").sort("scorer", "item_id", "response_id")
    assert main(command) == 0
    again = pl.read_parquet(out / "scores.parquet").sort("scorer", "item_id", "response_id")
    assert again.equals(table)
    assert main(["report", str(out), "--json", str(folder / "report.json")]) == 0
    report = json.loads((folder / "report.json").read_text())
    keys = ("accuracy", "low", "high", "n", "errors")
    found = {}
    for name, entry in report["scorers"].items():
        mine = table.filter(pl.col("scorer") == name)
        rows = "\n".join(
            f"{i} {r} {s:.9g}" for i, r, s in mine.select("item_id", "response_id", "score").rows()
        )
        found[name] = {
            "rows": mine.height,
            "scores": hashlib.sha256(rows.encode()).hexdigest()[:16],
            "overall": {key: entry["overall"][key] for key in keys},
        }
    return found


def of_statistics(sets: Dataset) -> dict[str, Any]:
    first, second = scored(sets, "first", 2.0), scored(sets, "second", 1.2)
    both = ScoreTable(pl.concat([first.frame, second.frame]))
    pair = compare(first, second)
    families = family_accuracy(both, sets)
    assert families is not None
    changed = perturbation_sensitivity(both)
    alike = cross_lingual_consistency(both)
    numbers = [[draw(axis, n) + n / 20 for n in range(15)] for axis in ("x", "y")]
    line = correlate(*numbers)
    return {
        "accuracy": [
            dict(row) for row in bon_accuracy(both, by=("scorer",)).groups.iter_rows(named=True)
        ],
        "compare": picked(pair, "n", "difference", "low", "high", "p"),
        "rank": [row.model_dump(mode="json") for row in rank(both).scorers],
        "families": [
            {
                "scorer": row.scorer,
                "families": row.families,
                "chance": row.chance,
                **{name: getattr(row, name).model_dump() for name in ("row", "place_win")},
            }
            for row in families.rows
        ],
        "perturbed": [flat(row.model_dump(mode="json")) for row in changed.kinds],
        "consistency": {
            **alike.model_dump(mode="json"),
            "scorers": [
                {**row.model_dump(mode="json"), **picked(row.consistency, "low", "high", "n")}
                | {"consistency": row.consistency.estimate}
                for row in alike.scorers
            ],
        },
        "correlation": line.model_dump(mode="json"),
    }


JUDGEMENT = (
    "Criteria:\n- greeting | elders are greeted first | weight 4 | meets B\nAssessment: B "
    "greets.\nVerdict: B"
)
BARE, GIVEN = VerdictRow((1, 2), ()), VerdictRow((1, 2), (3,))


def of_rewards() -> dict[str, Any]:
    """What fixed outputs earn; the readers of a judgement are tested where they are."""
    judgements = [
        parse_judgement(text)
        for text in (JUDGEMENT, JUDGEMENT.replace("dict: B", "dict: A"), "nothing")
    ]
    right = correctness_reward(judgements, ["B"] * 3)
    log_probabilities = {BARE: (-0.9, -0.6), GIVEN: (-1.1, -0.4)}
    cases = [
        CriteriaCase(GIVEN, BARE, "B"),
        CriteriaCase(GIVEN, BARE, "A"),
        CriteriaCase(GIVEN, BARE, "B", paid=False),
    ]
    paid = criteria_reward(cases, lambda rows: [log_probabilities[row] for row in rows])
    return {
        "correctness": right,
        "criteria": [one.value for one in paid],
        "total": total_reward(right, paid),
    }


PARTS: dict[str, Callable[[Dataset, Path], dict[str, Any]]] = {
    "run": of_the_run,
    "statistics": lambda sets, _: of_statistics(sets),
    "rewards": lambda *_: of_rewards(),
}


@pytest.mark.parametrize("part", PARTS)
def test_numbers_stay(
    part: str, sets: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plain(json.loads(json.dumps(PARTS[part](sets, tmp_path), default=str)))
    known = json.loads(NUMBERS.read_text()) if NUMBERS.is_file() else {}
    if os.environ.get("CARB_GOLDEN") == "write":
        NUMBERS.write_text(json.dumps({**known, part: found}, indent=1, sort_keys=True) + "\n")
    assert json.loads(NUMBERS.read_text())[part] == found
