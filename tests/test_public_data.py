"""The published files themselves: CARB's sample, carb-open built whole, BLEnD from file to
report."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from carb_cli import main
from carb_data import BonSet, Dataset, cultures, load
from carb_data.audit import audit
from carb_data.dataset import SEED
from carb_data.sources import build, carb_open, rows
from carb_data.sources.blend_files import PLACES
from carb_data.tasks import open_task
from carb_data.tasks.blend_task import form

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sample(public_data: Path) -> Path:
    found = public_data / "more" / "carb-sample"
    if not found.is_dir():
        pytest.skip(
            "the published sample is not in CARB_DATA_DIR; nobody licensed it, so that it "
            "is not shipped"
        )
    return found


def test_1809_sets_load_with_what_the_files_say(sample: Path, tmp_path: Path) -> None:
    report = build("carb-sample", sample, tmp_path / "sample.jsonl")
    assert report.built == 1809
    assert report.reasons == {
        "it stands in both folders": 190,
        "two of its answers are the same": 1,
    }
    assert report.licenses == ("LicenseRef-none-stated",)
    sets = Dataset.load(tmp_path / "sample.jsonl")
    assert Counter(str(item.domain) for item in sets) == {
        "commonsense": 460,
        "values": 470,
        "safety": 439,
        "linguistics": 440,
    }
    assert set(Counter(item.language for item in sets).values()) == {180, 181}
    assert all(response.generator for item in sets for response in item.responses)
    places = Counter(
        next(n for n, r in enumerate(item.responses) if r is item.chosen) for item in sets
    )
    assert max(places.values()) < 0.3 * len(sets), (
        "the order of the responses must not tell the right one"
    )
    assert {"arabic-sa", "arabic-iq", "spanish-ar", "english-us"} <= {item.culture for item in sets}


def test_a_source_item_stands_in_several_languages(sample: Path) -> None:
    sets = Dataset(row for row in rows("carb-sample", sample) if isinstance(row, BonSet))
    assert max(Counter(item.source_item for item in sets).values()) == 2
    survey = [item for item in sets if item.topic == "WVS"]
    assert len(survey) == 470
    assert all("mean" in (item.provenance.notes or "") for item in survey)


def test_the_page_of_the_sample_prints_what_the_check_finds(sample: Path) -> None:
    """A point of slack, since scikit-learn's solvers change between versions."""
    text = (ROOT / "docs" / "sample.md").read_text("utf-8")
    sets = Dataset(row for row in rows("carb-sample", sample) if isinstance(row, BonSet))
    report = audit(sets)
    attacks = {
        attack.group or attack.level: attack
        for attack in report.attacks
        if attack.attack == "character n-grams"
    }
    lines = re.findall(r"^\| (\w+) \| ([\d.]+)% \| ([\d.]+) – ([\d.]+) \|", text, re.MULTILINE)
    assert [group for group, *_ in lines] == [
        "all",
        "safety",
        "commonsense",
        "linguistics",
        "values",
    ]
    for group, *shares in lines:
        attack = attacks[group]
        measured = [attack.accuracy or 0, attack.low or 0, attack.high or 0]
        assert [float(share) / 100 for share in shares] == pytest.approx(measured, abs=0.01)
    hard = Counter(str(sets[name].domain) for name in report.hard)
    sentence = text.partition("Only ")[2].partition(".")[0]
    total, *_ = re.findall(r"\d+", sentence)
    said = Counter({name: int(n) for name, n in re.findall(r"(\w+)\s+(\d+)[,)]", sentence)})
    assert int(total) == said.total()
    assert (hard - said).total() + (said - hard).total() <= 4


def built(public_data: Path, seed: str) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARB_DATA_DIR", str(public_data.resolve()))
        patch.setattr(carb_open, "SEED", seed)
        return Dataset(row for row in rows("carb-open") if isinstance(row, BonSet))


@pytest.mark.coverage
def test_carb_open_has_6000_sets_in_english_and_ten_languages(public_data: Path) -> None:
    dataset = built(public_data, SEED)
    assert len(dataset) >= 6000
    assert {"en", "es", "zh", "ja", "ru", "th", "vi", "ar", "ko", "de"} <= {
        item.language for item in dataset
    }
    assert all(item.provenance.tier for item in dataset)
    sources = Counter(item.provenance.source for item in dataset)
    assert "carb-sample" not in sources, "a ruler from outside is in no other data set"
    assert {"blend", "worldcuisines-kb", "xsafety", "carb-seed"} <= set(sources)


@pytest.mark.coverage
def test_with_a_seed_of_2456_sets_30_of_40_cells_have_100(public_data: Path) -> None:
    """The open sources fill most cells; a cell that is just full needs the seed."""
    sets = built(public_data, f"{SEED}@2")
    counts = Counter(
        (cultures.root(item.culture).id, item.domain) for item in sets if item.culture in cultures
    )
    listed = {culture.id for culture in cultures}
    assert sum(n >= 100 for (culture, _), n in counts.items() if culture in listed) >= 30


def test_every_human_answer_is_right_with_its_weight(public_data: Path) -> None:
    """All wordings of all people in all 16 places. A wording of several entries has the weight of
    the most voted."""
    task = open_task(f"blend:{public_data / 'blend'}?places={','.join(PLACES)}&weighted=true")
    assert len(task.prompts) > 7000
    folder = public_data / "blend" / "data" / "annotations"
    items = {
        place: json.loads((folder / f"{place}_data.json").read_text("utf-8")) for place in PLACES
    }
    outcomes: Counter[str] = Counter()
    for prompt in task.prompts:
        place, number, _ = prompt.id.split("/")
        entries = items[place][number]["annotations"]
        most = max(entry["count"] for entry in entries)
        votes: dict[object, int] = {}
        for entry in entries:
            for text in entry["en_answers"]:
                votes[form(text)] = max(votes.get(form(text), 0), entry["count"])
        for entry in entries:
            for text in entry["en_answers"]:
                if not form(text):
                    outcomes["empty"] += 1
                    assert task.grade(prompt.id, text) == 0
                    continue
                graded = task.grade(prompt.id, text)
                assert entry["count"] / most <= graded <= votes[form(text)] / most
                outcomes["right"] += 1
                outcomes["own weight"] += graded == entry["count"] / most
    assert outcomes["right"] > 30_000
    assert outcomes["own weight"] / outcomes["right"] > 0.995
    assert outcomes["empty"] < 10


def test_blend_through_the_command_line(
    public_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "blend.jsonl"
    assert (
        main(
            [
                "data",
                "build",
                "blend",
                "--source",
                str(public_data / "blend"),
                "--out",
                str(out),
                "--json",
            ]
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["skipped"] == sum(report["reasons"].values()) > 0

    dataset = load(out)
    assert len(dataset) == report["built"]
    assert all(
        item.family and item.rejected and item.provenance.method == "human-vote" for item in dataset
    )

    runs = tmp_path / "run"
    scorers = ["--scorer", "baseline:length", "--scorer", "baseline:random"]
    assert main(["run", "--data", str(out), "--limit", "200", *scorers, "--out", str(runs)]) == 0
    capsys.readouterr()
    assert main(["report", str(runs), "--json", "-", "--html", str(tmp_path / "r.html")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 190 < found["dataset"]["sets"] <= 200, "families stay whole"
