"""``carb run`` as a user types it, and with ``--dry-run`` what it would do and cost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from carb_cli.display import money
from carb_cli.selection import SetOptions, select, spread
from carb_data import BonSet, CarbError, Dataset, ScoreTable, load
from carb_metrics import bon_accuracy, family_accuracy
from carb_scorers import RunRecord
from cli_helpers import Carb, answering, small_dataset, small_family, small_set


def test_json_is_the_run_record(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    ended = carb(
        "run",
        "--data",
        data_file,
        "--scorer",
        "baseline:length",
        "baseline:random",
        "--out",
        tmp_path / "r",
        "--json",
    )
    assert ended.code == 0
    record = ended.json
    on_disk = json.loads((tmp_path / "r" / "run.json").read_text())
    assert record["schema"] == "carb.run/2"
    assert {key: record[key] for key in on_disk} == on_disk
    assert [scorer["spec"]["name"] for scorer in record["scorers"]] == [
        "baseline:length",
        "baseline:random",
    ]
    table = ScoreTable.load(tmp_path / "r" / "scores.parquet")
    assert len(table) == 2 * 12 * 4
    accuracy = bon_accuracy(table.with_items(load(data_file)), by=("scorer",))
    for found in record["results"]:
        cell = accuracy.cell(found["scorer"])
        assert found["accuracy"] == cell.model_dump()
        assert (found["sets"], found["failed"]) == (12, 0)


def test_calls_that_a_kill_loses_are_printed_and_recorded(data_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    calls: list[object] = []
    running: list[subprocess.Popen[str]] = []

    def judge(_: str, asked: object) -> tuple[int, object]:
        calls.append(asked)
        if len(calls) == 10:  # the second of the third set's four
            running[0].kill()
        return 200, {"choices": [{"message": {"content": "[[7]]"}, "finish_reason": "stop"}]}

    def start(url: str) -> subprocess.Popen[str]:
        spec = f"judge:m?backend=openai&mode=pointwise&read=generate&concurrency=1&url={url}/v1"
        program = [sys.executable, "-m", "carb_cli", "run", "--quiet"]
        where = ["--data", str(data_file), "--scorer", spec, "--out", str(tmp_path / "r")]
        return subprocess.Popen([*program, *where], stdout=subprocess.PIPE, text=True)

    with answering(judge) as url:
        for code in (-signal.SIGKILL, 0):
            running[:] = [start(url)]
            said, _ = running[0].communicate()
            assert running[0].returncode == code
    (scorer,) = RunRecord.read(tmp_path / "r").scorers
    # The calls of a set that was answered are lost, too, if its results were still to be written.
    assert scorer.usage.requests == 48
    assert scorer.lost == len(calls) - 48 >= 2
    assert f"{scorer.lost} more calls, lost by interruptions" in said


def test_families_are_summed_up_by_the_place_win_rate(carb: Carb, tmp_path: Path) -> None:
    Dataset(item for number in range(8) for item in small_family(number)).save(tmp_path / "d.jsonl")
    command = ("run", "--data", tmp_path / "d.jsonl", "--scorer", "baseline:random", "--out")
    found = carb(*command, tmp_path / "a", "--json").json["results"][0]
    scores = ScoreTable.load(tmp_path / "a" / "scores.parquet")
    row = family_accuracy(scores, load(tmp_path / "d.jsonl")).of("baseline:random")
    assert found["place_win"] == row.place_win.model_dump()
    assert found["row"] == row.row.model_dump()
    printed = carb(*command, tmp_path / "b").out
    assert f"place win rate {100 * row.place_win.estimate:.1f}%" in printed


@pytest.mark.parametrize("limit", [1, 5, 20, 200])
def test_limit_is_spread_evenly_over_cultures_languages_and_domains(limit: int) -> None:
    """Cultures and domains come in blocks, as in a file: a few sets hold as many of each as they
    can."""
    cultures = {"japanese": ("ja",), "german": ("de",), "thai": ("th", "en"), "korean": ("ko",)}
    places = [
        (culture, language) for culture, languages in cultures.items() for language in languages
    ]
    sets = [
        small_set(1, id=f"{place}-{domain}-{n}", culture=place[0], language=place[1], domain=domain)
        for place in places
        for domain in ("commonsense", "values", "safety", "linguistics")
        for n in range(10)
    ]
    kept = spread(Dataset(sets), limit)
    assert len(kept) == limit
    for counted in (
        Counter((i.culture, i.language) for i in kept),
        Counter(str(i.domain) for i in kept),
    ):
        most = 5 if len(next(iter(counted))) == 2 else 4
        assert max(counted.values()) - (min(counted.values()) if len(counted) == most else 0) <= 1


def test_as_a_process(tmp_path: Path) -> None:
    """The command as a process: an encoding that cannot show a text is no error, and NO_COLOR is
    kept."""
    small_dataset().save(tmp_path / "d.jsonl")
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "carb_cli", "data", "show", str(tmp_path / "d.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    # A machine that is busy makes a slow start, of which one line says what runs.
    said = ended.stderr.replace("carb data show: Describe a data set.\n", "")
    assert (ended.returncode, said) == (0, "")
    assert "\x1b" not in ended.stdout


def _mirrored(number: int) -> BonSet:
    """One of the four sets of a Thai family."""
    place = ("thai", "lao", "cambodian", "burmese")[number % 4]
    return small_set(
        number, id=f"f-{number}", family=f"f{number // 4}", culture=place, language="th"
    )


def test_a_culture_has_its_mirrors_with_it(tmp_path: Path) -> None:
    other = small_set(50, culture="lao", language="th")
    Dataset([*map(_mirrored, range(8)), other, small_set(51, culture="japanese")]).save(
        tmp_path / "d.jsonl"
    )
    path = str(tmp_path / "d.jsonl")
    assert {item.culture for item in select([path], SetOptions(cultures=("thai",)))} == {
        "thai",
        "lao",
        "cambodian",
        "burmese",
    }
    assert len(select([path], SetOptions(cultures=("thai",)))) == 8
    assert [item.id for item in select([path], SetOptions(cultures=("lao",)))] == [
        "set-50"
    ]  # a mirror alone is no set of its own
    with pytest.raises(CarbError, match="Did you mean"):
        select([path], SetOptions(cultures=("thia",)))


def test_a_limit_keeps_families_whole() -> None:
    families = [_mirrored(number) for number in range(12)]
    alone = [small_set(n + 100, culture="german-at", language="de") for n in range(6)]
    dataset = Dataset([*families, *alone])
    for limit in (4, 6, 9, 11, 18, 30):
        kept = spread(dataset, limit)
        assert len(kept) <= limit
        counted = Counter(item.family for item in kept if item.family)
        assert set(counted.values()) <= {4}
    assert len(spread(dataset, 30)) == 18
    assert len(spread(dataset, 9)) == 9


@pytest.mark.parametrize("limit", [4, 8, 20])
def test_a_small_limit_takes_complete_families_first(limit: int) -> None:
    dataset = load("carb-seed")
    kept = spread(dataset, limit)
    families = Counter(item.family for item in kept)
    assert None not in families
    assert len(kept) == limit
    for family in families:
        own = [item for item in kept if item.family == family]
        assert len({item.chosen.text for item in own}) == len(own[0].responses)
    assert len({item.language for item in kept}) == len(families)


def test_a_plan_scores_nothing(carb: Carb, tmp_path: Path) -> None:
    scorers = [
        "baseline:length",
        "classifier:model",
        "mine=judge:m?backend=openai&read=generate&max_tokens=10&price_in=2&price_out=10",
        "implicit:m?ref=n",
    ]
    command = [
        "run",
        "--data",
        "carb-seed",
        "--scorer",
        *scorers,
        "--out",
        tmp_path / "r",
        "--dry-run",
    ]
    found = carb(*command, "--perturbed", "--json").json
    assert not (tmp_path / "r").exists()
    seed = load("carb-seed")
    sets, answers = len(seed), sum(len(item.responses) for item in seed)
    perturbed = sum(len(item.perturbed) for item in seed)
    assert (found["sets"], found["responses"], found["perturbed"]) == (sets, answers, perturbed)
    length, classifier, judge, implicit = found["scorers"]
    assert (length["calls"], length["input_tokens"], length["cost"]) == (0, 0, None)
    assert classifier["calls"] == answers + perturbed
    assert (judge["scorer"], judge["calls"]) == ("mine", sets + perturbed)
    assert judge["output_tokens"] == 10 * judge["calls"]
    assert implicit["calls"] == 2 * classifier["calls"]
    assert judge["cost"] == pytest.approx(
        (2 * judge["input_tokens"] + 10 * judge["output_tokens"]) / 1e6
    )
    assert "no score was kept" in carb(*command).out
    assert carb(*command, "--json").json["perturbed"] == 0


def test_copies_are_said(carb: Carb, tmp_path: Path) -> None:
    Dataset([*small_dataset(6), small_set(1, id="copy")]).save(tmp_path / "d.jsonl")
    ended = carb(
        "run", "--data", tmp_path / "d.jsonl", "--scorer", "baseline:label", "--out", tmp_path / "r"
    )
    assert "1 of 7 sets are copies" in " ".join(ended.err.split())


def test_the_strict_share_stands_beside_the_shared_one(
    carb: Carb, data_file: Path, tmp_path: Path
) -> None:
    ended = carb("run", "--data", data_file, "--scorer", "baseline:label", "--out", tmp_path / "r")
    assert re.search(r"25\.0% \[.*strict 0\.0%", ended.out)
    added = carb("results", "add", tmp_path / "r", "--out", tmp_path / "results")
    assert re.search(r"25\.0% \[.*strict 0\.0%", added.out)


def test_a_small_cost_is_no_zero() -> None:
    values = (None, 0.0, 0.000123, 0.0456, 1.5, 1234.5)
    assert [money(value) for value in values] == [
        "–",
        "0.00",
        "0.00012",
        "0.046",
        "1.50",
        "1,234.50",
    ]


@pytest.mark.parametrize("wrong", ["read=genrate", "price_in=inf", "price_out=-1", "price_in=free"])
def test_a_plan_finds_a_wrong_option(carb: Carb, tmp_path: Path, wrong: str) -> None:
    spec = f"judge:m?backend=openai&{wrong}"
    ended = carb(
        "run",
        "--data",
        "carb-seed",
        "--limit",
        4,
        "--scorer",
        spec,
        "--out",
        tmp_path / "r",
        "--dry-run",
    )
    assert ended.code == 2
    assert wrong.partition("=")[0] in ended.err


@pytest.mark.parametrize("both", [False, True])
def test_a_reader_of_the_notes_who_leaves_ends_no_run(
    data_file: Path, tmp_path: Path, both: bool
) -> None:
    """``carb run … 2>&1 | head -1`` stopped half done, with exit code 0."""
    names = ("length", "random")
    scorers = [f"baseline:{name}" for name in names]
    command = [sys.executable, "-m", "carb_cli", "run", "--data", str(data_file)]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [*command, "--scorer", *scorers, "--out", str(tmp_path / "r"), "--window", "1"],
        stdout=write if both else subprocess.PIPE,
        stderr=write,
        check=False,
    )
    os.close(write)
    assert ended.returncode == 0
    assert len(ScoreTable.load(tmp_path / "r" / "scores.parquet")) == 2 * 12 * 4


UNUSABLE = {
    "closed": "os.close({0})",
    "read-only": "os.dup2(os.open(os.devnull, os.O_RDONLY), {0})",  # what bash leaves of 2>&-
    "full": "os.dup2(os.open('/dev/full', os.O_WRONLY), {0})",
}


@pytest.mark.parametrize(
    ("stream", "state"), [(1, "closed"), (1, "read-only"), (2, "read-only"), (2, "full")]
)
def test_a_stream_that_takes_nothing_ends_no_command(
    tmp_path: Path, stream: int, state: str
) -> None:
    if state == "full" and not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    Dataset([small_set(1)]).save(tmp_path / "d.jsonl")
    start = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    code = f"import os, sys; {UNUSABLE[state].format(stream)}; {start}"
    command = ["-m", "carb_cli", "run", "--data", str(tmp_path / "d.jsonl")]
    rest = ["--scorer", "baseline:length", "--out", str(tmp_path / "r")]
    ended = subprocess.run(
        [sys.executable, "-c", code, *command, *rest], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0
    assert (tmp_path / "r" / "run.json").is_file()


def test_a_reader_of_the_help_who_leaves_is_no_failure() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "carb_cli", "--help"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr.count(b"Traceback")) == (0, 0)


def test_a_misspelt_kind_is_refused_before_the_data_are_read(carb: Carb, tmp_path: Path) -> None:
    ended = carb(
        "run", "--data", tmp_path / "none", "--scorer", "basline:x", "--out", tmp_path / "r"
    )
    assert ended.code == 2
    assert "Did you mean 'baseline'" in ended.err
