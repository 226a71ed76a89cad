"""What a plan says of weights and time, and what is shown while something takes long."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from carb_cli import display
from carb_cli.progress import announced
from carb_cli.scoring import pace
from carb_cli.weights import weights
from carb_metrics.rows import Interval
from carb_scorers import known_models
from carb_scorers.spec import parse_spec
from cli_helpers import Carb


def write(folder: Path, **sizes: int) -> Path:
    folder.mkdir()
    for name, size in sizes.items():
        (folder / name.replace("__", ".")).write_bytes(bytes(size))
    return folder


def test_the_weights_of_folders_and_of_what_has_none(tmp_path: Path) -> None:
    model = write(tmp_path / "m", model__safetensors=700, model__bin=500, tokenizer__json=90)
    specs = [
        f"classifier:{model}",
        f"implicit:{model}?ref={model}",
        "baseline:length",
        "judge:m?backend=openai&read=generate",
        f"judge:{tmp_path / 'none'}",
    ]
    found = weights(list(map(parse_spec, specs)))
    assert [(one.on_disk, one.to_fetch) for one in found] == [
        (700, 0),
        (1400, 0),
        (0, 0),
        (0, 0),
        (None, None),
    ]


def test_weights_that_the_hub_has(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra carb-scorers[hf]")
    asked = []

    def model_info(name: str, revision: str | None, **options: object) -> SimpleNamespace:
        asked.append((name, revision, options["files_metadata"]))
        if name == "o/gone":
            raise hub.errors.RepositoryNotFoundError(
                "404", response=SimpleNamespace(headers={}, request=None)
            )
        sizes = {
            "model-00001-of-00002.safetensors": 3 * 10**9,
            "model-00002-of-00002.safetensors": 10**9,
            "pytorch_model.bin": 5 * 10**9,
            "original/consolidated.00.pth": 7 * 10**9,
        }
        files = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
        return SimpleNamespace(siblings=files)

    monkeypatch.setattr(hub, "model_info", model_info)
    specs = ["classifier:o/gone", "classifier:o/here?revision=abc"]
    gone, here = weights(list(map(parse_spec, specs)))
    assert asked == [("o/gone", None, True), ("o/here", "abc", True)]
    assert (here.on_disk, here.to_fetch) == (0, 4 * 10**9)
    assert str(here) == "4.0 GB to fetch"
    assert str(gone) == "not known"


def test_weights_by_the_registry_where_the_hub_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra carb-scorers[hf]")

    def model_info(*_: object, **__: object) -> SimpleNamespace:
        raise OSError("no route")

    monkeypatch.setattr(hub, "model_info", model_info)
    known = known_models().models[0]
    parsed = map(parse_spec, [known.spec(), f"implicit:{known.id}?ref=o/other", "judge:o/other"])
    first, pair, other = weights(list(parsed))
    assert (first.to_fetch, first.in_bfloat16) == (None, known.memory)
    assert str(first) == "54.5 GB if in bfloat16"
    assert str(pair) == str(other) == "not known"


def test_a_dry_run_prints_weights_and_why_the_time_is_not_known(carb: Carb, tmp_path: Path) -> None:
    """The weights are there, but are no model's."""
    model = write(tmp_path / "m", model__safetensors=3 * 10**6)
    command = ["run", "--data", "carb-seed", "--limit", 4, "--scorer", f"classifier:{model}"]
    ended = carb(*command, "--out", tmp_path / "r", "--dry-run")
    assert "3 MB on disk" in ended.out
    assert ended.code == 0
    assert f"classifier:{model}: 4 sets are scored" in ended.err
    assert len(ended.err.splitlines()) > 1
    assert "carb run --limit 12" in ended.out
    plan = carb(*command, "--out", tmp_path / "r", "--dry-run", "--json").json
    sizes = {"on_disk": 3 * 10**6, "to_fetch": 0, "in_bfloat16": None}
    assert plan["scorers"][0]["weights"] == sizes
    assert plan["scorers"][0]["seconds"] is None


def test_a_pace_leaves_out_loading_and_what_was_known() -> None:
    times = [(100.0, 0.5), (104.0, 0.6), (190.0, 1.0)]  # loaded, half of it scored before
    sentence = pace("m", 20, times)
    assert "10 sets in 90.0 s" in sentence
    assert "1,000 sets take 2.5 hours" in sentence
    assert not pace("m", 20, times[:1])


def test_what_takes_long_is_announced_and_what_does_not_is_not() -> None:
    said = Event()
    with announced(said.set, 0.0):
        assert said.wait(60)
    never = Event()
    with announced(never.set, 3600.0):
        pass
    assert not never.is_set()


def test_a_width_of_zero_is_no_interval() -> None:
    assert display.shown(Interval(estimate=0.5, low=0.5, high=0.5)) == "50.0%"
    assert display.shown(Interval(estimate=0.5)) == "50.0%"
    assert "40.0" in display.shown(Interval(estimate=0.5, low=0.4, high=0.6))
