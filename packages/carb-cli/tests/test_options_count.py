"""Two options together do what both say, or one of them is refused by name."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from cli_helpers import Carb

RUN = ("run", "--data", "DATA", "--scorer", "baseline:length", "--out", "OUT")
EVAL = ("eval", "baseline:length", "DATA", "--out", "OUT", "--dry-run")
PERTURB = ("data", "perturb", "DATA", "--out", "OUT", "--model", "hf:none")
REFUSED = [
    ("data check", ("data", "check", "DATA", "--form-only", "--write-hard", "OUT"), "--write-hard"),
    (
        "data perturb",
        (*PERTURB, "--kinds", "RP", "--languages", "de"),
        "--languages",
    ),
    ("run", (*RUN, "--fresh", "--retry-errors"), "--retry-errors"),
    ("run", (*RUN, "--md", "-", "--json"), "--md"),
    ("run", (*RUN, "--md", "-", "--latex", "-"), "--latex"),
    ("run", (*RUN, "--suite", "OUT"), "--suite"),
    ("run", (*RUN, "--timeout-per-model", "3"), "--timeout-per-model"),
    ("run", (*RUN, "--dry-run", "--md", "OUT"), "--md"),
    ("run", (*RUN, "--dry-run", "--latex", "OUT"), "--latex"),
    ("run", (*RUN, "--dry-run", "--retry-errors"), "--retry-errors"),
    ("report", ("report", "FINISHED", "--json", "-", "--md", "-"), "--md"),
    ("report", ("report", "FINISHED", "--json", "-", "--only", "groups"), "--only"),
    ("eval", ("eval", "--mode", "letters"), "--mode"),
    ("eval", ("eval", "--fail-below", "accuracy=0.3"), "--fail-below"),
    ("eval", (*EVAL, "--fail-below", "accuracy=0.3"), "--fail-below"),
    ("eval", (*EVAL, "--open"), "--open"),
    ("models", ("models", "--suite", "--json"), "--json"),
    ("review apply", ("review", "apply", "OUT", "--data", "DATA"), "--data"),
    ("review apply", ("review", "apply", "OUT", "--language", "th"), "--language"),
    ("results check", ("results", "check", "OUT", "--language", "th"), "--language"),
    ("results site", ("results", "site", "FINISHED", "--skip-bad", "3"), "--skip-bad"),
    (
        "bon",
        ("bon", "--policy", "hf:none", "--task", "blend:none", "--out", "OUT", "--seed", "3"),
        "--seed",
    ),
    ("train", ("train", "--model", "none"), "--config"),
    (
        "train",
        ("train", "--config", "CONFIG", "--print-config", "--resume"),
        "--resume",
    ),
]


@pytest.mark.parametrize(("command", "given", "option"), REFUSED)
def test_an_option_that_another_voids_is_refused(
    carb: Carb,
    data_file: Path,
    finished_run: Path,
    tmp_path: Path,
    command: str,
    given: tuple[str, ...],
    option: str,
) -> None:
    files = {"DATA": data_file, "OUT": tmp_path / "out", "FINISHED": finished_run}
    ended = carb(*(files.get(part, part) for part in given))
    assert ended.code == 2, command
    assert option in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert not files["OUT"].exists()


def test_a_run_writes_its_table_beside_json(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    given = [tmp_path / "out" if part == "OUT" else part for part in RUN]
    given = [data_file if part == "DATA" else part for part in given]
    ended = carb(*given, "--json", "--md", table)
    assert ended.json["schema"] == "carb.run/2"
    assert "baseline:length" in table.read_text()


def test_eval_opens_its_report_beside_json(
    carb: Carb, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    given = ("baseline:length", data_file, "--out", tmp_path / "out", "--json")
    assert carb("eval", *given, "--open").json["html"].endswith("report.html")
    assert carb("eval", *given).json["html"].endswith("report.html")
    assert carb("eval", *given, "--no-open").json["html"].endswith("report.html")
    assert len(opened) == 1
    assert opened[0].endswith("out/report.html")


def test_a_form_and_the_presets_are_printed_as_json(carb: Carb) -> None:
    forms = carb("models", "--json").json["forms"]
    assert carb("models", next(iter(forms)), "--json").json == next(iter(forms.values()))
    assert "demo-cpu" in carb("train", "--json").json["presets"]


def test_a_section_alone_goes_into_the_page_beside_json(
    carb: Carb, finished_run: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    ended = carb("report", finished_run, "--only", "groups", "--json", "-", "--html", page)
    assert json.loads(ended.out)["scorers"]
    assert page.is_file()
