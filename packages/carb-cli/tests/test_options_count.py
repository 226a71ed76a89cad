"""Two options together do what both say, or one of them is refused by name."""

from __future__ import annotations

import json
import webbrowser
from contextlib import closing
from pathlib import Path

import pytest

from carb_cli.main import COMMANDS, GROUPS
from carb_cli.review.handing_out import create, invite
from carb_data import Dataset, load
from cli_helpers import Carb, small_dataset, small_family, write_review

RUN = ("run", "--data", "DATA", "--scorer", "baseline:length", "--out", "OUT")
EVAL = ("eval", "baseline:length", "DATA", "--out", "OUT", "--dry-run")
PATIENT = ("--timeout-per-model", "5")
MARGIN = ("--margin", "0.02")
BUILD = ("data", "build", "blend", "--out", "OUT")
COLLECT = ("review", "collect", "REVIEW")
REVIEW = ("review", "serve", "--data", "DATA", "--out", "OUT")
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
    ("run", (*RUN, "--md", "OUT", "--latex", "OUT"), "same file"),
    (
        "run",
        ("run", "--data", "DATA", "--suite", "SUITE", "--out", "OUT", "--dry-run", *PATIENT),
        "--timeout-per-model",
    ),
    ("report", ("report", "FINISHED", "--json", "-", "--only", "groups"), "--only"),
    (
        "report",
        ("report", "FINISHED", "--json", "-", "--only", "pairs", "--figure", "OUT"),
        "--only",
    ),
    ("report", ("report", "FINISHED", "--json", "OUT", "--html", "OUT"), "same file"),
    ("report", ("report", "FINISHED", "--md", "OUT", "--figure", "OUT"), "same file"),
    ("compare", ("compare", "SHORT", "RANDOM", *MARGIN, "--confidence", "0.4"), "confidence"),
    ("validity", ("validity", "POINTS", "--against", "benchmark"), "--against"),
    ("validity", ("validity", "POINTS", "--against", "downstream"), "--against"),
    ("validity", ("validity", "POINTS", "--benchmark", "SUITE", "--against", "SUITE"), "--against"),
    ("validity", ("validity", "POINTS", "--benchmark", "REPORT"), "--benchmark"),
    ("validity", ("validity", "POINTS", "--figure", "POINTS"), "same file"),
    ("report", ("report", "FINISHED", "--figure", "points.png"), ".svg"),
    ("validity", ("validity", "POINTS", "--figure", "points.png"), ".svg"),
    ("data build", (*BUILD, "-o", "seed=3"), "--option seed"),
    ("data build", (*BUILD, "-o", "progress=3"), "--option progress"),
    ("data build", (*BUILD, "-o", "places=a", "-o", "places=b"), "--option places"),
    ("data split", ("data", "split", "DATA", "--out", "OUT", "--train", "0.5"), "sum to 1"),
    (
        "review collect",
        (*COLLECT, "--forget", "reviewer 1", "--renew", "reviewer 1"),
        "--renew",
    ),
    ("review serve", (*REVIEW, "--host", "0.0.0.0"), "--public-url"),
    ("serve", ("serve", "baseline:length", "--host", "0.0.0.0"), "--token-env"),
    ("eval", ("eval", "--mode", "letters"), "--mode"),
    ("eval", ("eval", "--fail-below", "accuracy=0.3"), "--fail-below"),
    ("eval", (*EVAL, "--fail-below", "accuracy=0.3"), "--fail-below"),
    ("eval", (*EVAL, "--open"), "--open"),
    ("models", ("models", "--suite", "--json"), "--json"),
    ("review apply", ("review", "apply", "OUT", "--data", "DATA"), "--data"),
    ("review apply", ("review", "apply", "OUT", "--language", "th"), "--language"),
    ("results check", ("results", "check", "OUT", "--language", "th"), "--language"),
    ("results site", ("results", "site", "FINISHED", "--skip-bad", "3"), "--skip-bad"),
    ("results site", ("results", "site", "FINISHED", "--data", "DATA"), "--data"),
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
    ("doctor", ("doctor", "--json", "--skip-bad", "3"), "--skip-bad"),
    ("data list", ("data", "list", "--json", "--culture", "thai"), "--culture"),
    ("data fetch", ("data", "fetch", "blend", "--json", "--language", "th"), "--language"),
    (
        "data construct",
        ("data", "construct", "--config", "CONFIG", "--out", "OUT", "--domain", "food"),
        "--domain",
    ),
    (
        "results add",
        ("results", "add", "FINISHED", "--out", "OUT", "--skip-bad", "3"),
        "--skip-bad",
    ),
]

BOTH_COUNT = {"data show", "review page"}
"""Commands whose options go together in every pair; tested below."""

TEXTS = {
    "SUITE": '[[model]]\nname = "short"\nspec = "baseline:length"\n',
    "REPORT": '{"scorers": {}}',
    "POINTS": "scorer,benchmark,downstream\na,0.1,0.2\nb,0.2,0.1\nc,0.3,0.3\n",
}


def a_review(data: Path, folder: Path) -> Path:
    """A review file with one person, ``reviewer 1``."""
    path = folder / "a.reviews"
    with closing(create(path, load(data), str(data))) as db:
        invite(db, 1)
    return path


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
    if given[0] == "serve" or given[:2] == ("review", "serve"):
        pytest.importorskip("uvicorn", reason="needs the extra carb-cli[review]")
    files = {"DATA": data_file, "OUT": tmp_path / "out", "FINISHED": finished_run}
    for name, text in TEXTS.items():
        files[name] = tmp_path / name.lower()
        files[name].write_text(text)
    files |= {"SHORT": f"{finished_run}#length", "RANDOM": f"{finished_run}#random"}
    if "REVIEW" in given:
        files["REVIEW"] = a_review(data_file, tmp_path)
    ended = carb(*(files.get(part, part) for part in given))
    assert ended.code == 2, command
    assert option in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert not files["OUT"].exists()


def test_every_command_has_its_pairs() -> None:
    commands = {*COMMANDS} | {f"{group} {name}" for group in GROUPS for name in GROUPS[group][0]}
    assert commands == BOTH_COUNT | {command for command, *_ in REFUSED}


def test_a_family_is_shown_as_json(carb: Carb, tmp_path: Path) -> None:
    path = tmp_path / "families.jsonl"
    Dataset([*small_family(1), *small_family(2)]).save(path)
    shown = carb("data", "show", path, "--family", "f1", "--json").json
    assert "answer 0 1" in json.dumps(shown)
    assert "answer 0 2" not in json.dumps(shown)


def test_a_page_of_one_culture_is_written_beside_json(carb: Carb, tmp_path: Path) -> None:
    given = ("review", "page", "--data", "carb-seed", "--json")
    two = carb(*given, "--culture", "thai", "vietnamese", "--out", tmp_path / "two.html").json
    one = carb(*given, "--culture", "thai", "--out", tmp_path / "one.html").json
    assert (tmp_path / "one.html").stat().st_size < (tmp_path / "two.html").stat().st_size
    assert one != two


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


def test_a_section_alone_goes_into_a_table_and_a_picture_beside_json(
    carb: Carb, finished_run: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.md"
    picture = tmp_path / "groups.svg"
    whole = ("report", finished_run, "--json", "-", "--only", "groups")
    assert json.loads(carb(*whole, "--md", table).out)["scorers"]
    assert "safety" in table.read_text()
    assert json.loads(carb(*whole, "--figure", picture).out)["scorers"]
    assert "safety" in picture.read_text()


def test_a_person_is_forgotten_with_the_answers_that_come_with_the_command(
    carb: Carb, tmp_path: Path
) -> None:
    """That answers are added, too, is no reason to keep those of a person who goes."""
    review = tmp_path / "a.reviews"
    write_review(review)
    answers = review.with_name("answers.json")
    saved = json.loads(answers.read_text())
    answers.write_text(json.dumps(saved | {"person": {"name": "Noi", "consent": 1}}))
    ended = carb("review", "collect", review, answers, "--forget", "Noi", "--json")
    assert (ended.code, ended.json["new"], ended.json["forgotten"]) == (0, 1, 1), ended.err
    assert "'Noi'" in carb("review", "collect", review, "--forget", "Noi").err


def test_bad_rows_of_training_data_are_left_out_where_they_may_be(
    carb: Carb, data_file: Path, tmp_path: Path
) -> None:
    training = tmp_path / "training.jsonl"
    Dataset(list(small_dataset(40))[20:]).save(training)
    lines = training.read_text().splitlines()
    training.write_text(
        "\n".join([*lines[:5], lines[5].replace('"chosen"', '"picked"'), *lines[6:]])
    )
    given = ("data", "check", data_file, "--form-only", "--against", training)
    assert "training.jsonl:6" in carb(*given).err
    ended = carb(*given, "--skip-bad", "1", "--json")
    assert ended.json["contamination"]["train_texts"] > 0
    assert "training.jsonl:6" in ended.err
