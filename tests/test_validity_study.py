"""examples/validity_study.py, run small: baselines, a part of the seed, and answers from a file."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "examples" / "validity_study.py"


def test_the_study_writes_what_validity_reads(tmp_path: Path) -> None:
    (tmp_path / "blend" / "annotations").mkdir(parents=True)
    (tmp_path / "blend" / "questions").mkdir()
    annotation = {"answers": ["tea"], "en_answers": ["tea"], "count": 3}
    items = {
        f"q{n}": {"question": f"{n}?", "en_question": f"{n}?", "annotations": [annotation], "idks": {}}
        for n in range(6)
    }
    (tmp_path / "blend" / "annotations" / "UK_data.json").write_text(json.dumps(items))
    with (tmp_path / "blend" / "questions" / "UK_questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["ID", "Topic"], *([key, "Food"] for key in items)])
    answers = ["tea", "milk and tea", "beer", "water"]
    rows = [
        {"prompt_id": f"UK/{key}/en", "responses": answers[n % 4 :] + answers[: n % 4]} for n, key in enumerate(items)
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, SCRIPT, "--out", tmp_path / "study", "--limit", 24, "--n", 4]
    command += ["--scorer", "long=baseline:length", *(f"luck{n}=baseline:random?seed={n}" for n in range(4))]
    command += ["--benchmark", "seed=carb-seed", "--policy", f"file=file:{tmp_path / 'r.jsonl'}"]
    command += ["--task", f"uk=blend:{tmp_path / 'blend'}?places=UK"]
    said = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    assert "5 reward models" in said
    points = sorted((tmp_path / "study" / "points").glob("*.csv"))
    assert [file.stem for file in points] == ["seed-accuracy--file-uk", "seed-place-effect--file-uk"]
    with points[0].open() as lines:
        assert {row["scorer"] for row in csv.DictReader(lines)} == {"long", "luck0", "luck1", "luck2", "luck3"}
