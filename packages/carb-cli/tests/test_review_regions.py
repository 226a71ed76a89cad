"""People are asked about the regions that they know, and their votes count for these alone."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from carb_cli.review import handing_out
from carb_cli.review.asking import Person, ReviewItem
from carb_cli.review.findings import find
from carb_cli.review.regions import choices, covered, region_name, region_of
from carb_cli.review.review_file import introduce, record, transaction
from carb_cli.selection import is_main
from carb_data import Dataset, load
from cli_helpers import Carb, small_set
from review_helpers import an_event, items, picked

REGIONS = ("TH", "TH-50", "TH-50-chom-thong", "TH-90", None)


@pytest.fixture
def sets() -> Dataset:
    return Dataset(
        small_set(2 * n, culture="thai", region=region) for n, region in enumerate(REGIONS)
    )


@pytest.mark.parametrize(
    ("places", "asked"),
    [
        ((), {"TH", None}),
        (("TH-50",), {"TH", "TH-50", None}),
        (("TH-50-chom-thong",), {"TH", "TH-50", "TH-50-chom-thong", None}),
        (("TH-50-chom-thong", "TH-90"), set(REGIONS)),
        (("DE-HE-fulda",), {"TH", None}),
    ],
)
def test_people_get_sets_about_the_country_and_their_regions(
    sets: Dataset, tmp_path: Path, places: tuple[str, ...], asked: set[str | None]
) -> None:
    """Four Thai towns have four keys, and one person was asked about all of them."""
    with closing(handing_out.create(tmp_path / "a.reviews", sets, "test")) as db:
        handing_out.invite(db, 1)
        reviewer = db.execute("SELECT id FROM reviewer").fetchone()["id"]
        with transaction(db):
            introduce(db, reviewer, Person(consent=1, places=places))
            handed = handing_out.next_items(db, reviewer, 20)
    assert {one.set.region for one in handed} == asked


def test_a_vote_counts_from_somebody_who_knows_the_region(sets: Dataset, tmp_path: Path) -> None:
    with closing(handing_out.create(tmp_path / "a.reviews", sets, "test")) as db:
        known = items(db)
        with transaction(db):
            for number, places in enumerate([(), ("TH-50",), ("TH-50-chom-thong",)]):
                introduce(db, f"{number:016x}", Person(consent=1, places=places))
                for item in known.values():
                    event = an_event(item, picked(item, item.key))
                    assert record(db, f"{number:016x}", event).state == "kept"
        found = find(db)
    counts = dict(zip([one.set.region for one in known.values()], found.sets, strict=True))
    assert {region: one.reviews for region, one in counts.items()} == {
        "TH": 3,
        None: 3,
        "TH-50": 2,
        "TH-50-chom-thong": 1,
        "TH-90": 0,
    }
    assert found.nobody == {"TH-90": 1}
    assert [one.region for one in found.reviewers] == ["", "เชียงใหม่", "จอมทอง"]


def test_a_place_has_its_name() -> None:
    item = ReviewItem(small_set(2, culture="thai", region="TH-50"))
    assert (item.shown["region"], item.shown["place"]) == ("TH-50", "เชียงใหม่")
    assert ReviewItem(small_set(2, culture="thai", region="TH")).shown["place"] == ""
    assert region_name("XX-1-new-town") == "1 New Town"
    assert covered(["TH-50-chom-thong"]) >= {"", "TH-50", "TH-50-chom-thong"}
    assert choices({"", "TH-50-chom-thong"}) == [
        {"code": "TH-50", "name": "เชียงใหม่"},
        {"code": "TH-50-chom-thong", "name": "เชียงใหม่: จอมทอง"},
    ]


def test_the_regions_of_the_seed_have_names() -> None:
    """regions.json has them, and a code stands in for a new one."""
    codes = {*filter(None, map(region_of, load("carb-seed")))}
    path = Path(__file__).parents[1] / "src" / "carb_cli" / "review" / "regions.json"
    missing = codes - json.loads(path.read_text("utf-8")).keys()
    assert len(missing) <= len(codes) / 50, sorted(missing)


def test_the_command_says_which_regions_need_people(
    carb: Carb, sets: Dataset, tmp_path: Path
) -> None:
    sets.save(tmp_path / "d.jsonl")
    page = carb("review", "page", "--data", tmp_path / "d.jsonl", "--out", tmp_path / "a.html")
    assert page.code == 0
    assert "1 about เชียงใหม่ (TH-50)" in page.err
    shown = carb("review", "apply", tmp_path / "a.reviews")
    assert "1 about เชียงใหม่ (TH-50)" in shown.out


def test_a_file_that_is_no_review_is_refused_with_what_makes_one(
    carb: Carb, tmp_path: Path
) -> None:
    (tmp_path / "points.csv").write_text("a,b\n1,2\n" * 200)
    ended = carb("review", "apply", tmp_path / "points.csv")
    assert ended.code == 2
    assert "points.csv" in ended.err
    assert "carb review serve" in ended.err


def test_a_page_of_many_cultures_is_refused_with_the_choices(carb: Carb, tmp_path: Path) -> None:
    """4,479 sets about 82 places went to one person."""
    page = carb("review", "page", "--data", "carb-seed", "--out", tmp_path / "a.html")
    assert page.code == 2
    assert "--culture" in page.err
    assert "thai (" in page.err
    assert not list(tmp_path.iterdir())


def test_no_place_of_the_seed_is_offered_under_two_codes() -> None:
    """Who chose one Köln was not asked about the other."""
    asked = [one for one in load("carb-seed") if is_main(one.culture, one.language)]
    codes = {*filter(None, map(region_of, asked))}
    names = Counter((code[:2], region_name(code)) for code in codes)
    assert [name for name, count in names.items() if count > 1] == []
    for country in ("DE", "TH", "VN"):
        offered = [one["name"] for one in choices({c for c in codes if c.startswith(country)})]
        assert len(offered) == len(set(offered))
