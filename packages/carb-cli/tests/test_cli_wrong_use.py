"""Wrong use and bad input: one clear paragraph, exit code 2, no traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from carb_data import install_line
from carb_data.files import to_json
from cli_helpers import Carb, Ended, small_set


def assert_refused(ended: Ended, *parts: str) -> None:
    """The command ended as a user's mistake should end."""
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    assert ended.out == ""
    flat = " ".join(ended.err.replace("│", " ").split())  # cyclopts draws a box and wraps
    for part in parts:
        assert part in flat, ended.err


@pytest.fixture
def run(carb: Carb, tmp_path: Path):
    def call(data: object, scorer: str = "baseline:length", *more: object) -> Ended:
        return carb("run", "--data", data, "--scorer", scorer, "--out", tmp_path / "out", *more)

    return call


def test_no_arguments_show_help(carb: Carb) -> None:
    ended = carb()
    assert ended.code == 0
    assert "Usage: carb COMMAND" in ended.out


def test_unknown_command_and_missing_option(carb: Carb) -> None:
    assert_refused(carb("reprot"), "reprot", "report")
    assert_refused(carb("run", "--data", "carb-seed"), "--out")
    assert_refused(
        carb("run", "carb-seed", "baseline:length"),
        "--data requires an argument",
        "such as --data FILE",
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--limits", 3), ("--limits", "--limit")),
        (("--limit", "many"), ("--limit", "many", "int")),
        (("--limit", 0), ("--limit", "0", ">= 1")),
        (("--cultures", "japanes"), ("japanes", "Did you mean 'japanese'?")),
        (("--cultures", "german"), ("No sets are left",)),
        (
            ("--culture", "ar"),
            ("error: unknown culture 'ar'. Did you mean 'arabic' or 'spanish-ar'?",),
        ),
        (("--culture-file", "nowhere.json"), ("nowhere.json",)),
    ],
)
def test_wrong_options(
    run, data_file: Path, more: tuple[object, ...], said: tuple[str, ...]
) -> None:
    assert_refused(run(data_file, "baseline:length", *more), *said)


def test_wrong_data(run, tmp_path: Path) -> None:
    path = tmp_path / "sets.jsonl"
    for line, said in (
        (
            to_json(small_set(1)) + '\n{"id": "x", \n',
            ("sets.jsonl:2", "1 problem", "Correct these rows"),
        ),
        (to_json(small_set(1, culture="klingon")), ("unknown culture 'klingon'", "--culture-file")),
        ("", ("sets.jsonl holds no sets",)),
    ):
        path.write_text(line, encoding="utf-8")
        assert_refused(run(path), *said)


def test_missing_extra(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "model").mkdir()
    assert_refused(
        run("carb-seed", f"classifier:{tmp_path / 'model'}"), install_line("carb-scorers[hf]")
    )


def test_the_folder_holds_another_run(run, data_file: Path) -> None:
    assert run("carb-seed", "baseline:length", "--limit", 10).code == 0
    assert_refused(
        run("carb-seed", "baseline:length", "--limit", 13), "holds results of", "--limit"
    )
    assert_refused(run(data_file), "holds results of another data set", "--fresh")
    assert run(data_file, "baseline:length", "--fresh").code == 0


def test_report_of_no_run(carb: Carb, tmp_path: Path) -> None:
    assert_refused(carb("report", tmp_path), "holds no finished run", "carb run")
    assert_refused(carb("report"), "Name at least one run folder")


def test_the_record_of_a_run_stands_for_its_folder(carb: Carb, run, data_file: Path) -> None:
    """ "It holds no run.json" was said of run.json itself."""
    assert run(data_file, "baseline:length").code == 0
    record = data_file.parent / "out" / "run.json"
    assert record.is_file()
    assert carb("report", record).out == carb("report", record.parent).out


def test_a_damaged_score_table(carb: Carb, run, data_file: Path, tmp_path: Path) -> None:
    assert run(data_file).code == 0
    (tmp_path / "out" / "scores.parquet").write_bytes(b"not parquet")
    assert_refused(carb("report", tmp_path / "out"), "scores.parquet")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [("data", "list"), ("models", "--json"), ("--help",)])
def test_a_full_disk_behind_the_output_is_a_sentence(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "carb_cli", *command], stdout=full, stderr=subprocess.PIPE
        )
    printed = ended.stderr.decode().splitlines()  # a slow start says what it does, too
    assert ended.returncode == 2
    assert any(line.startswith("error: The output: No space left on device.") for line in printed)
    assert len(printed) <= 2


def test_a_path_that_the_locale_cannot_read_is_refused_before_the_run(carb: Carb) -> None:
    path = "结果".encode().decode("ascii", "surrogateescape")
    ended = carb("run", "--data", "carb-seed", "--scorer", "baseline:length", "--out", path)
    assert_refused(ended, "PYTHONUTF8=1")


def test_errors_cannot_steer_the_terminal(run) -> None:
    ended = run("carb\x1b[2J\u202eseed")
    assert_refused(ended, "carb\\x1b[2J\\u202eseed")
    assert "\x1b" not in ended.err


def test_rows_that_make_no_set_are_left_out_where_that_is_asked_for(run, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("prompt,chosen,rejected\nq1?,a,b\nq2?,a,a\n")
    assert_refused(run(table), "rows.csv:3: rejected: two answers are the same", "--skip-bad 1")
    ended = run(table, "baseline:length", "--skip-bad", "50%")
    assert ended.code == 0
    assert "1 rows make no set and are left out" in ended.err
    assert_refused(
        run(table, "baseline:length", "--skip-bad", "many"), "--skip-bad takes a number of rows"
    )


def test_a_value_for_rows_without_one_is_taken_wherever_data_are_loaded(
    carb: Carb, tmp_path: Path
) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    table = tmp_path / "rows.csv"
    table.write_text("country,prompt,chosen,rejected\nJapan,q1?,a,b\n,q2?,c,d\n")
    for command in ("check", "show"):
        assert carb("data", command, table).code != 0
        ended = carb("data", command, table, "--culture", "thai", "--language=en", "--json")
        assert ended.code == 0
    assert_refused(carb("report", tmp_path, "--culture", "thai"), "--culture")


@pytest.mark.parametrize("spec", ["baseline:lenght", "basline:length", "judge:m?mode=listwize"])
@pytest.mark.parametrize("command", [("eval",), ("run", "--data", "carb-seed", "--scorer")])
def test_a_misspelt_spec_is_refused_before_the_data_are_read(
    carb: Carb, tmp_path: Path, command: tuple[str, ...], spec: str
) -> None:
    ended = carb(*command, spec, "--out", tmp_path / "out")
    misspelt = re.search("lenght|basline|listwize", spec)
    assert misspelt is not None
    assert_refused(ended, misspelt[0])
    assert "reading" not in ended.err


@pytest.mark.parametrize(
    ("command", "near"),
    [
        (("report", "RUN", "--only", "famlies"), "families"),
        (("report", "RUN", "--only", "item"), "items"),
        (("compare", "RUN#lenght", "RUN#random"), "length"),
        (("models", "skywrok-reward-v2-qwen3-4b"), "skywork-reward-v2-qwen3-4b"),
        (("models", "qwen3-4b"), "skywork-reward-v2-qwen3-4b"),
        (("models", "skywrok"), "skywork-reward-gemma-2-27b"),
        (("models", "rewardbnch2", "--suite"), "rewardbench2"),
        (("eval", "skywrok"), "skywork-reward-gemma-2-27b"),
        (("report", "RUNx"), "RUN"),
        (("data", "show", "RUNx"), "RUN"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    carb: Carb, finished_run: Path, command: tuple[str, ...], near: str
) -> None:
    ended = carb(*(word.replace("RUN", str(finished_run)) for word in command))
    named = near.replace("RUN", str(finished_run))
    assert_refused(ended, f"Did you mean '{named}'?")


@pytest.mark.parametrize("option", ["--confidence", "--margin"])
def test_a_percentage_where_a_share_belongs_is_refused_before_anything_is_read(
    carb: Carb, tmp_path: Path, option: str
) -> None:
    assert_refused(carb("compare", tmp_path / "no-run", option, 95), "0.95", "got 95")
    if option == "--confidence":
        assert_refused(carb("report", tmp_path / "no-run", option, 95), "0.95", "got 95")


def test_a_scorer_is_not_compared_with_itself(carb: Carb, finished_run: Path) -> None:
    for sides in (("#length", "#length"), ("#length",), ("/../first#length", "#length")):
        ended = carb("compare", *(f"{finished_run}{side}" for side in sides))
        assert_refused(ended, "Name two different scorers", "carb compare", "#baseline:random")


STOPPED = """
import sys
module, sys.argv[1:] = sys.argv[1], ["data", "list", "--quiet"]
class Lost:
    def __del__(self):
        raise KeyboardInterrupt
class Stopped:
    def find_spec(self, name, *_):
        if name == module:
            {stop}
sys.meta_path.insert(0, Stopped())
from carb_cli.__main__ import run
run()
"""


def stopped(at: str, stop: str) -> tuple[int, str]:
    """The end of ``carb data list`` when Ctrl-C comes while a module is imported."""
    code = [sys.executable, "-c", STOPPED.format(stop=stop), at]
    ended = subprocess.run(code, capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stderr.strip()


@pytest.mark.parametrize("module", ["carb_cli.main", "inspect", "threading", "cyclopts"])
def test_ctrl_c_while_the_command_line_is_imported_is_no_traceback(module: str) -> None:
    assert stopped(module, "raise KeyboardInterrupt") == (130, "Interrupted.")


def test_a_ctrl_c_that_python_loses_in_a_callback_still_stops_the_command() -> None:
    waiting = "Lost(); [None for _ in iter(int, 1)]"  # until it is interrupted
    assert stopped("cyclopts", waiting) == (130, "Interrupted.")


@pytest.mark.parametrize(
    "command",
    [
        "run --data nowhere --scorer baseline:length --out {}",
        "run --data nowhere --scorer baseline:length --out run --md {}/t.md",
        "run --data nowhere --scorer baseline:length --out run --latex {}/t.tex",
        "eval baseline:length nowhere --out {}",
        "report nowhere --json {}/r.json",
        "report nowhere --html {}/r.html",
        "report nowhere --figure {}/f.svg",
        "results add nowhere --out {}",
        "results site nowhere --out {}",
        "review page --data nowhere --out {}/r.html",
        "review serve --data nowhere --out {}/r.reviews",
        "review apply nowhere --out {}/d.jsonl",
        "review collect nowhere --written {}/w.jsonl",
        "data split nowhere --out {}",
        "data build blend --out {}/b.jsonl",
        "data check nowhere --write-hard {}/h.jsonl",
        "data perturb nowhere --model hf:x --out {}/p.jsonl",
        "data construct --config nowhere --out {}/c.jsonl",
        "bon --policy file:nowhere --task blend:nowhere --out {}",
        "train --config demo-cpu --out {}",
        "validity nowhere --figure {}/f.svg",
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_any_work(
    carb: Carb, tmp_path: Path, command: str
) -> None:
    """Nothing that these commands read is there, so only the path's own check can name it."""
    blocked = tmp_path / "file" / "below"
    blocked.parent.write_text("a file")
    assert_refused(carb(*command.format(blocked).split()), f"Cannot write {blocked}")
