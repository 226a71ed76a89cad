"""docs/new-culture.md does what it says: its files are written, its commands run, its output is printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "new-culture.md"


def test_the_walk_through_runs_as_it_is_written(public_data, tmp_path):
    blocks = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    home = tmp_path / "repository"
    home.mkdir()
    for language, name, content in blocks:
        if language == "json":
            json.loads(content)
            (home / name).write_text(content, encoding="utf-8")
    script = "".join(content for language, _, content in blocks if language == "sh")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CARB_CULTURES"},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "200",
        "CARB_DATA_DIR": str(public_data.resolve()),
    }
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-euo", "pipefail", "-c", script], cwd=home, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    printed = {" ".join(line.split()) for line in done.stdout.splitlines()}
    promised = [" ".join(line.split()) for kind, _, text in blocks if kind == "text" for line in text.splitlines()]
    assert promised
    for line in promised:
        assert any(line in shown for shown in printed), f"not printed: {line}"
    report = json.loads((home / "report.json").read_text(encoding="utf-8"))
    assert "sundanese" in json.dumps(report)
    assert (home / "report.html").stat().st_size > 1000
    skipped = (home / "skipped.jsonl").read_text(encoding="utf-8").splitlines()
    sets = (home / "west-java.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(sets) + len(skipped) == 1000
    assert "visits" in (home / "references.jsonl").read_text(encoding="utf-8")
