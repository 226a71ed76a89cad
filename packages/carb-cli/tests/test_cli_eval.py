"""``carb eval``: from a model to a verdict and a report in one command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from carb_data import load
from cli_helpers import Carb, answering


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_model_it_explains_itself(carb: Carb) -> None:
    ended = carb("eval", "--limit", "40", "--no-open")
    assert ended.code == 0
    assert "No model was given" in ended.out
    assert "chance is 25.0%" in ended.out
    assert "Next: carb eval MODEL" in ended.out
    assert "place win rate" in ended.out
    assert "which reaches" in ended.out
    assert Path("runs/eval-baselines-carb-seed-40/report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["foo"], "no model folder 'foo'"),
        (["baseline:length", "nowhere.jsonl"], "nowhere.jsonl"),
        (["baseline:lenght"], "Unknown baseline 'lenght'"),
    ],
)
def test_mistakes_are_found_before_any_work(carb: Carb, arguments: list[str], said: str) -> None:
    ended = carb("eval", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert not Path("runs").exists()


def test_a_gate_for_ci(carb: Carb) -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    command = [
        "eval",
        "baseline:length",
        "--limit",
        "16",
        "--no-open",
        "--quiet",
        "--out",
        "here",
        "--fail-below",
    ]
    failed = carb(*command, "place_win=0.55")
    assert failed.code == 1
    assert "place_win 0.500 [0.500, 0.500]" in failed.out
    assert "is below 0.55" in failed.out
    assert carb(*command, "accuracy=0.01", "--json").code == 0
    two_families = [
        "eval",
        "baseline:random",
        "--limit",
        "8",
        "--no-open",
        "--quiet",
        "--out",
        "two",
        "--fail-below",
    ]
    lucky = carb(*two_families, "place_win=0.01")
    assert lucky.code == 0
    assert "--fail-below passed, perhaps by luck" in lucky.out
    assert "too few data" in lucky.out
    ended = carb(*command, "place_wim=0.1")
    assert ended.code == 2
    assert "Did you mean 'place_win'?" in ended.err
    for number in ("52", "-0.1", "nan", ""):  # a percentage let the gate fail after the whole run
        ended = carb(*command, f"place_win={number}")
        assert (ended.code, "from 0 to 1" in ended.err, "mean" in ended.err) == (2, True, False)


def test_a_failed_comparison_counts_half_in_the_verdict_and_as_lost_at_the_gate(carb: Carb) -> None:
    """A model that knows the key, and fails on about a quarter of the families, as one does that
    answers only where it is sure."""
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    items = [item for item in load("carb-seed") if item.family is not None]
    sure = {item.family for item in items if sum(str(item.family).encode()) % 4}
    key = {item.prompt: item.chosen.text for item in items if item.family in sure}

    def unsure(_: str, asked: dict[str, str]) -> tuple[int, object]:
        right = key.get(asked["text_1"])
        return 400 if right is None else 200, {"data": [{"score": float(asked["text_2"] == right)}]}

    with answering(unsure) as url:
        spec = f"sure=classifier:m?backend=openai&api=score&bounded=true&retries=0&url={url}"
        ended = carb(
            "eval",
            spec,
            "--limit",
            200,
            "--no-open",
            "--quiet",
            "--out",
            "o",
            "--fail-below",
            "place_win=1",
        )
    assert ended.code == 1, ended
    assert re.search(r"[\d,]+ of [\d,]+ comparisons failed and count half", ended.out)
    assert carb("results", "add", "o", "--out", "results").code == 0
    entries = [
        json.loads(path.read_text(encoding="utf-8")) for path in Path("results").rglob("entry.json")
    ]
    numbers = {entry["run"]["scorers"][0]["spec"]["name"]: entry["numbers"] for entry in entries}
    half, lost = (numbers["sure"][name]["estimate"] for name in ("place_win", "place_win_if_lost"))
    assert 0.5 < lost < half < 1
    assert f"place_win with failures lost {lost:.3f} [" in ended.out


@pytest.mark.parametrize("limit", [20, 80])
def test_a_model_that_never_answers_gets_no_number(carb: Carb, limit: int) -> None:
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    with answering(lambda *_: (400, {})) as url:
        spec = f"bad=classifier:m?backend=openai&api=score&retries=0&price_in=2&url={url}"
        plan = carb("eval", spec, "--limit", limit, "--dry-run", "--json").json["scorers"][0]
        ended = carb("eval", spec, "--limit", limit, "--no-open", "--quiet", "--out", "o")
        again = carb("run", "--data", "carb-seed", "--limit", limit, "--scorer", spec, "--out", "r")
    assert ended.code == again.code == 1, ended
    assert "bad: no scores, every set failed" in again.out
    assert plan["calls"] == 4 * limit
    assert re.search(
        rf"That takes {plan['calls']} calls of the model.* and cost about 0\.\d", ended.out
    )
    assert "bad failed on every set, so it gets no verdict." in ended.out
    assert "bad is right" not in ended.out
    assert "above it" not in ended.out
    rows = [line.split() for line in ended.out.splitlines() if re.match(r"\s*–\s+bad ", line)]
    assert [set(row[2:-3]) for row in rows] == [{"–"}], ended.out


def test_a_strangers_table_needs_nothing_but_the_texts(carb: Carb) -> None:
    rows = [
        f"How do people in Thailand greet person {n}?,With a small bow {n}.,With a kiss {n}."
        for n in range(6)
    ]
    Path("my.csv").write_text("\n".join(["prompt,chosen,rejected", *rows]) + "\n", encoding="utf-8")
    command = ["eval", "mine=baseline:length", "my.csv", "--no-open", "--quiet"]
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    ended = carb(*command, "--out", "a")
    assert ended.code == 0, ended
    assert "No culture in 6 sets" in ended.err
    assert "pydantic" not in ended.err
    assert "baseline:label" not in ended.out, "there is no culture's name to look for"
    refused = carb("eval", "baseline:label", "my.csv", "--no-open", "--out", "l")
    assert refused.code == 2
    assert "--culture" in refused.err
    filled = carb(
        *command,
        "--out",
        "b",
        "--culture",
        "thai",
        "--domain",
        "values",
        "--language",
        "en",
        "--json",
    )
    assert filled.code == 0, filled
    assert "No culture" not in filled.err
    assert filled.json["report"]["dataset"]["cultures"] == {"thai": 6}
    assert filled.json["report"]["floor"]["tests"] == [], "a baseline with another name is no model"
    ended = carb("eval", "mine=baseline:length", "my.csv", "--culture", "thia", "--out", "c")
    assert ended.code == 2
    assert "Did you mean 'thai'?" in ended.err
    assert carb("eval", "baseline:length", "carb-seed", "--culture", "thai").code == 2
