"""The scripts under studies/, run small, and the figures of their pages."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from tal_rlvr.layouts import read_pairs
from tal_tiny import make_tiny

STUDY = Path(__file__).parents[1] / "studies" / "open_book"


def module(path: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(STUDY / path)))


def run(path: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(STUDY / path), *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_the_page_of_the_open_book_study_has_the_figures_of_its_verdicts() -> None:
    """Every difference of the page, in points or nats, is one that ``table.py`` prints."""
    printed = run("table.py").stdout
    numbers = {
        f"{float(one) * scale:+.{digits}f}"
        for one in re.findall(r"[+-]\d\.\d{3}", printed)
        for scale, digits in ((100, 1), (1, 3))
    }
    page = (STUDY / "README.md").read_text(encoding="utf-8").replace("−", "-")
    tested = page.partition("| mean of eight seeds")[2].partition("Only the first row")[0]
    shown = re.findall(r"[+-]\d+\.\d+", tested)
    assert len(shown) == 15
    assert set(shown) <= numbers
    assert "in 99.9%, R_corr / 2 in 98.1%" in printed
    assert "2431 well-formed" in printed
    lines = len((STUDY / "table.py").read_text(encoding="utf-8").splitlines())
    assert lines <= 35


def test_the_page_of_training_has_the_figures_of_todays_form_on_the_kept_outputs() -> None:
    printed = run("bent.py").stdout
    page = (STUDY.parents[1] / "docs" / "train.md").read_text(encoding="utf-8").replace("−", "-")
    told = page.partition("Measured on the outputs that")[2].partition("This judge trusts")[0]
    shown = [figure for figure in re.findall(r"\d\.\d+", told) if figure != "0.5"]
    assert len(shown) == 8
    assert set(shown) <= set(re.findall(r"\d\.\d+", printed))


def test_the_power_of_a_test_of_two_arms_comes_from_a_pilots_variances(tmp_path: Path) -> None:
    import numpy as np

    power = module("power.py")
    draw = np.random.default_rng(0)
    seed, family, rest = (
        draw.normal(0, sd, shape)
        for sd, shape in ((0.1, (400, 1)), (0.2, (1, 400)), (0.3, (400, 400)))
    )
    found = power.variances(seed + family + rest)
    assert (found.seed, found.family, found.rest) == pytest.approx((0.01, 0.04, 0.09), rel=0.2)
    parts = power.Variances(0.002, 0.0, 0.03)
    assert power.share_found(parts, 0.0, 5, 64, draw) <= 0.06
    few, many = (power.share_found(parts, 0.08, seeds, 64, draw) for seeds in (3, 8))
    assert few < many
    rows = [
        {
            "seed": s,
            "arm": arm,
            "source_item": f"i{i}",
            "label": "A",
            "verdict": "AB"[(s + i + (arm == "b")) % 3 == 0],
        }
        for s in range(3)
        for i in range(5)
        for arm in "ab"
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "pilot.csv")
    done = run("power.py", "--pilot", tmp_path / "pilot.csv", "--arms", "a", "b")
    assert "Pilot: 3 seeds, 5 families; " in done.stdout, done.stderr
    assert run("power.py", "--pilot", tmp_path / "pilot.csv", "--arms", "a", "c").returncode == 1


@pytest.mark.parametrize("named", [[], ["--named", "--places", 2]], ids=["implied", "named"])
def test_a_judge_that_does_not_read_the_place_is_right_in_half_of_the_pairs(
    named: list[object], tmp_path: Path
) -> None:
    assert (
        run("pairs.py", "--languages", "en", *named, "--out", tmp_path / "pairs.jsonl").returncode
        == 0
    )
    rows = [
        json.loads(line)
        for line in (tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    mirrors: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        mirrors.setdefault((row["family"], *sorted([row["chosen"], row["rejected"]])), []).append(
            row
        )
    for own in mirrors.values():
        assert len({row["chosen"] for row in own}) == len(own) == 2
        assert (
            len({row["prompt"].split("\n\n")[0] for row in own}) == 1
        )  # the same facts in the same order
        assert all(
            row["fact"] in row["prompt"] and row["other_fact"] in row["prompt"] for row in own
        )
    topics = {row["fact"]: row["source_item"] for row in rows}
    assert all(
        topics[row["fact"]] == row["source_item"] for row in rows
    )  # a split by source item shares no fact
    assert {pair.culture for pair in read_pairs("preference", str(tmp_path / "pairs.jsonl"))} == {
        "general"
    }


@pytest.mark.real
def test_the_open_book_study_runs_each_arm_once_and_prints_its_table(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    model = make_tiny(tmp_path / "tiny")
    config = model / "config.json"
    config.write_text(config.read_text().replace('embeddings": 512', 'embeddings": 4096'))
    follows = tmp_path / "follows"
    start = run("start.py", "--model", model, "--out", follows, "--longest", 300, "--steps", 4)
    assert "\ncriteria given, both orders: right in " in start.stdout, start.stderr[-3000:]
    shared = ["--out", tmp_path / "out", "--longest", 300, "--mirrors", 1]
    words = [*shared, "--model", follows, "--tokens", 160, "--steps", 1, "--outputs", 8, "--seeds"]
    done = run("study.py", *words, 0, 1, "--arms", "C", "C+A")
    assert done.returncode == 0, done.stderr[-3000:]
    assert (told := done.stdout.splitlines()[-1]).startswith("C+A less C: ")
    rest = run(
        "study.py",
        *words,
        0,
        "--arms",
        "C",
        "control labels",
        "supervised",
        "start",
    )
    assert rest.returncode == 0, rest.stderr[-3000:]
    assert rest.stdout.splitlines()[-1] == told
    assert rest.stderr.count("grpo 1 ") == 1  # what is there is not run again
    held = pl.read_csv(tmp_path / "out" / "verdicts.csv")
    assert sorted(set(held["arm"])) == [
        "C",
        "C+A",
        "control labels",
        "start",
        "supervised",
    ]
    assert {len(own) for _, own in held.group_by("seed", "arm", "pair")} == {2}
    read = run("reader.py", f"implicit:{follows}?ref=none", *shared)
    assert read.returncode == 0, read.stderr[-3000:]
    told = [line.split(":")[0] for line in read.stdout.splitlines()]
    assert told[-1] == "reads_place by the reader, C+A less C over seeds"
    foreign = tmp_path / "out" / "C-1.json"
    foreign.write_text(foreign.read_text().replace('"steps": 1,', '"steps": 2,'))
    assert "are not of one test" in run("study.py", *words, 0, "--arms", "C").stderr
