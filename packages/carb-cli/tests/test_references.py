"""Reference results: what comes with the package, and what a report shows of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carb_cli.report.content import content, read_runs
from carb_cli.results.entry import Candidates, check, found_in, read, shipped
from carb_cli.results.references import FEWEST, with_references
from carb_data import BonSet, Dataset, load
from cli_helpers import Carb, small_dataset


def test_every_number_that_comes_with_the_package_follows_from_its_rows() -> None:
    """Those on carb-open are checked where that is built: tests/test_carb_open.py."""
    folders = [folder for folder in found_in(shipped()) if read(folder)[0].run.dataset.names == ("carb-seed@2",)]
    assert folders
    candidates = Candidates()
    wrong = {folder.name: problems for folder in folders if (problems := check(folder, candidates))}
    assert wrong == {}, "after a change of carb-seed: python benchmarks/reference_results.py WORK makes them again"


def test_what_comes_with_the_package_is_small_and_names_no_machine() -> None:
    files = [path for path in shipped().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    for folder in found_in(shipped()):
        entry, _ = read(folder)
        assert not [part for part in entry.run.command if re.search(r"(^|[=:~])[/~]", part)]
        spec = entry.run.scorers[0].spec
        assert spec.kind == "baseline" or (spec.revision or "").startswith("sha256:")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(carb: Carb, data: str, out: str, *scorers: str, limit: int | None = None) -> dict[str, Any]:
    some = () if limit is None else ("--limit", str(limit))
    ended = carb("run", "--data", data, *some, "--scorer", *scorers, "--out", out, "--quiet")
    assert ended.code == 0, ended
    return carb("report", out, "--json", "-").json


def test_a_reference_has_what_its_scorer_earns_on_the_same_sets_and_can_be_left_out(here: Path, carb: Carb) -> None:
    own = ran(carb, "carb-seed@2", "own", "baseline:length", "baseline:label", limit=60)
    shown = ran(carb, "carb-seed@2", "other", "baseline:random?seed=7", limit=60)
    references = {part["name"]: part for part in shown["references"]}
    for name in ("baseline:length", "baseline:label"):
        assert references[name]["accuracy"] == own["scorers"][name]["overall"]
        assert references[name]["sets"] == own["dataset"]["sets"]
        assert references[name]["yours"] is None
        row = next(row for row in own["families"]["rows"] if (row["scorer"], row["group"]) == (name, None))
        assert references[name]["families"] == row
    assert not {"baseline:length", "baseline:label"} & {part["name"] for part in own["references"]}
    assert "Results that come with carb" in carb("report", "other").out
    assert "come with carb" not in carb("report", "other", "--no-references").out


def test_a_reference_that_failed_on_sets_says_on_how_many(here: Path, carb: Carb) -> None:
    english = ("--data", "carb-seed@2", "--cultures", "english", "--limit", "100")
    assert carb("run", *english, "--scorer", "baseline:length", "--out", "mine", "--quiet").code == 0
    part = next(p for p in carb("report", "mine", "--json", "-").json["references"] if p["spec"]["kind"] == "think")
    failed = part["accuracy"]["errors"]
    assert 0 < failed < part["accuracy"]["n"]
    shown = " ".join(carb("report", "mine").out.split())  # a row, or lines where the terminal is narrow
    assert re.search(rf"{re.escape(part['name'])}.{{1,90}}\b{failed}\b", shown)
    assert carb("results", "site", "mine", "--out", "site").code == 0
    assert f"<small>{failed} failed</small>" in Path("site/index.html").read_text()


def entries(carb: Carb, dataset: Dataset, scorer: str = "baseline:length") -> Path:
    dataset.save("entry.jsonl")
    ran(carb, "entry.jsonl", "entry", scorer)
    assert carb("results", "add", "entry", "--out", "kept", "--replace").code == 0
    return Path("kept")


def changed(dataset: Dataset, number: int, **changes: object) -> Iterator[BonSet]:
    """The data set with the first sets changed."""
    for place, item in enumerate(dataset):
        yield item.model_copy(update=changes) if place < number else item


def test_only_sets_of_the_same_content_are_shared(here: Path, carb: Carb) -> None:
    whole = small_dataset(FEWEST + 30)
    kept = entries(carb, whole)
    for fewer, shared in ((30, FEWEST), (31, 0)):
        Dataset(changed(whole, fewer, prompt="Another question?")).save("mine.jsonl")
        ran(carb, "mine.jsonl", f"mine-{fewer}", "baseline:random")
        runs = read_runs([Path(f"mine-{fewer}")])
        report = with_references(content(runs), runs, kept)
        assert [part.sets for part in report.references] == ([shared] if shared else [])
        for part in report.references:
            assert part.accuracy.n == FEWEST
            assert part.yours is not None
            assert part.yours.n == FEWEST


def test_of_a_scorers_references_the_one_that_shares_most_sets_is_shown(here: Path, carb: Carb) -> None:
    whole = small_dataset(FEWEST + 30)
    for count, name in ((FEWEST, "fewer"), (FEWEST + 30, "all"), (FEWEST + 10, "some")):
        Dataset(list(whole)[:count]).save(f"{name}.jsonl")
        ran(carb, f"{name}.jsonl", name, "baseline:length")
        assert carb("results", "add", name, "--out", "kept").code == 0
    ran(carb, "all.jsonl", "mine", "baseline:random")
    runs = read_runs([Path("mine")])
    assert [part.sets for part in with_references(content(runs), runs, Path("kept")).references] == [FEWEST + 30]


def test_a_family_that_is_not_shared_whole_is_left_out(here: Path, carb: Carb) -> None:
    seed = load("carb-seed@2")
    families = list(dict.fromkeys(item.family for item in seed))[:30]
    mine = seed.filter(lambda item: item.family in families)
    lost = next(iter(mine))
    kept = entries(carb, Dataset(item for item in mine if item.id != lost.id))
    mine.save("mine.jsonl")
    ran(carb, "mine.jsonl", "mine", "baseline:random")
    runs = read_runs([Path("mine")])
    (part,) = with_references(content(runs), runs, kept).references
    assert part.sets == sum(item.family != lost.family for item in mine)


def test_results_that_come_with_the_package_can_be_named(here: Path, carb: Carb) -> None:
    assert len(carb("results", "check", "reference", "--json").json["entries"]) == len(found_in(shipped()))
    (here / "reference").mkdir()
    assert carb("results", "check", "reference").code == 2


def test_a_site_shows_what_comes_with_the_package_in_grey_and_out_of_the_ranks(here: Path, carb: Carb) -> None:
    shown = ran(carb, "carb-seed@2", "mine", "baseline:random?seed=7", limit=60)
    assert carb("results", "site", "mine", "--out", "site").code == 0
    index = (here / "site" / "index.html").read_text(encoding="utf-8")
    ranked, grey = index.split('<tbody class="reference">')
    assert "baseline:random" in ranked
    assert "baseline:length" not in ranked
    (row,) = [line for line in grey.splitlines() if ">baseline:length<" in line]
    (part,) = [part for part in shown["references"] if part["name"] == "baseline:length"]
    expected = [part["accuracy"]["accuracy"], *(cell["accuracy"] for cell in part["by_domain"].values())]
    assert [float(value) for value in re.findall(r'data-v="(0[.]\d+)"', row)] == pytest.approx(
        [expected[0], part["families"]["accuracy"]["estimate"], *expected[1:]]
    )


def test_a_site_says_which_of_its_rows_came_with_the_package(here: Path, carb: Carb) -> None:
    ran(carb, "carb-seed@2", "mine", "baseline:random?seed=7")
    assert carb("results", "site", "mine", "reference", "--out", "site").code == 0
    index = (here / "site" / "index.html").read_text(encoding="utf-8")
    marked = re.findall(r'<tr class="reference">.*?<bdi>(.*?)</bdi>', index)
    assert "baseline:length" in marked
    assert not [name for name in marked if "seed=7" in name]
