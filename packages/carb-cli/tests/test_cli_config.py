"""Configuration files, and plans, of ``carb run``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_cli.config import RunConfig, to_toml
from carb_data import load
from cli_helpers import Carb

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1)  # a bare CR is not TOML


@given(data=st.lists(TEXT, min_size=1), out=TEXT, limit=st.none() | st.integers(1, 10**6), seed=st.integers(-5, 2**40))
def test_a_printed_configuration_reads_back(data: list[str], out: str, limit: int | None, seed: int) -> None:
    config = RunConfig(data=tuple(data), scorer=("baseline:length",), out=Path(out), limit=limit, seed=seed)
    assert RunConfig.model_validate(tomllib.loads(to_toml(config))) == config


def test_a_file_says_the_same_as_the_flags(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    flags = ("--data", data_file, "--scorer", "baseline:random", "--limit", 5, "--seed", 3, "--no-perturbed")
    printed = carb("run", *flags, "--out", tmp_path / "a", "--print-config")
    assert printed.code == 0
    assert not (tmp_path / "a").exists()
    file = tmp_path / "run.toml"
    file.write_text(printed.out, encoding="utf-8")
    by_file = carb("run", "--config", file, "--json").json
    by_flags = carb("run", *flags, "--out", tmp_path / "b", "--json").json
    for name in ("dataset", "scorers", "seed", "window"):
        assert by_file[name] == by_flags[name]


def test_a_flag_wins_over_the_file(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f'data = "{data_file}"\nscorer = ["baseline:length"]\nlimit = 3\nout = "x"\n')
    found = carb("run", "--config", file, "--limit", 7, "--out", tmp_path / "r", "--json").json
    assert found["dataset"]["sets"] == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits = 3", "'limits' is unknown, did you mean 'limit'?"),
        ("limit = 0", "--limit: Input should be greater than or equal to 1, got 0"),
        ('seed = "x"', "--seed:"),
        ("[[[", "is not TOML"),
        ("", "--data is missing; --scorer is missing; --out is missing"),
        ('engine = "spark"', "'local' or 'ray'"),
    ],
)
def test_mistakes_in_the_file(carb: Carb, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    ended = carb("run", "--config", file)
    assert ended.code == 2
    assert said in ended.err
    assert str(file) in ended.err


def test_no_such_file(carb: Carb, tmp_path: Path) -> None:
    assert "Cannot read the configuration" in carb("run", "--config", tmp_path / "none.toml").err


def test_a_plan_scores_nothing(carb: Carb, tmp_path: Path) -> None:
    scorers = [
        "baseline:length",
        "classifier:model",
        "judge:m?backend=openai&read=generate&max_tokens=10",
        "implicit:m?ref=n",
    ]
    found = carb("run", "--data", "carb-seed@1", "--scorer", *scorers, "--out", tmp_path / "r", "--dry-run",
                 "--price-in", 2, "--price-out", 10, "--json").json  # fmt: skip
    assert not (tmp_path / "r").exists()
    seed = load("carb-seed@1")
    perturbed = sum(len(item.perturbed) for item in seed)
    assert (found["sets"], found["responses"], found["perturbed"]) == (440, 1760, perturbed)
    length, classifier, judge, implicit = found["scorers"]
    assert (length["calls"], length["input_tokens"], length["cost"]) == (0, 0, None)
    assert classifier["calls"] == 1760 + perturbed
    assert judge["calls"] == 440 + perturbed
    assert judge["output_tokens"] == 10 * judge["calls"]
    assert implicit["calls"] == 2 * classifier["calls"]
    assert judge["cost"] == pytest.approx((2 * judge["input_tokens"] + 10 * judge["output_tokens"]) / 1e6)
    assert found["cost"] == judge["cost"]


@pytest.mark.parametrize(
    ("options", "calls_a_set"),
    [
        ("", 1),
        ("&orders=rotated", 4),
        ("&orders=both", 2),
        ("&mode=pairwise", 12),
        ("&mode=pairwise&orders=one", 6),
        ("&mode=pointwise", 4),
        ("&mode=pointwise&orders=both", 8),
    ],
)
def test_calls_of_judges(carb: Carb, tmp_path: Path, options: str, calls_a_set: int) -> None:
    scorer = f"judge:m?read=generate&max_tokens=5{options}"
    command = (
        "run",
        "--data",
        "carb-seed@1",
        "--no-perturbed",
        "--scorer",
        scorer,
        "--out",
        tmp_path,
        "--dry-run",
        "--json",
    )
    (planned,) = carb(*command).json["scorers"]
    assert planned["calls"] == 440 * calls_a_set
    assert planned["output_tokens"] == 5 * planned["calls"]


def test_prices_of_a_spec(carb: Carb, tmp_path: Path) -> None:
    command = ("run", "--data", "carb-seed@1", "--out", tmp_path, "--dry-run", "--json", "--scorer")
    (planned,) = carb(*command, "judge:m?backend=openai&price_in=3").json["scorers"]
    assert planned["cost"] == pytest.approx(3 * planned["input_tokens"] / 1e6)
    ended = carb(*command, "judge:m?backend=openai&price_in=cheap")
    assert ended.code == 2
    assert "price_in=cheap is not a number" in ended.err


def test_a_plan_in_words(carb: Carb, tmp_path: Path) -> None:
    ended = carb("run", "--data", "carb-seed@1", "--scorer", "baseline:length", "--out", tmp_path / "r", "--dry-run")
    assert ended.code == 0
    assert "nothing was scored" in ended.out


def test_a_plan_finds_an_unknown_kind(carb: Carb, tmp_path: Path) -> None:
    assert carb("run", "--data", "carb-seed@1", "--scorer", "x:y", "--out", tmp_path / "r", "--dry-run").code == 2
