"""What comes out of a review: planted truths, votes, answers from files of every form, and the
rules of a verdict."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import uuid
from itertools import pairwise
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from carb_cli.review import handing_out
from carb_cli.review.asking import Opinion, ReviewAnswer, ReviewItem
from carb_cli.review.findings import WHOLE, SetTally, apply, find, line_beside, tally
from carb_cli.review.review_file import GivenAnswer, collect
from carb_cli.selection import reviewable
from carb_data import CarbError, load
from cli_helpers import Carb
from review_helpers import (
    Behaviour,
    a_set,
    an_event,
    current_answers,
    items,
    panel,
    picked,
    sets,
    truthful,
)


def spammer(rng: random.Random, _: str, item: ReviewItem) -> ReviewAnswer:
    return picked(item, rng.choice(item.tokens))


def test_a_planted_panel_is_seen_through(tmp_path: Path) -> None:
    behaviours: list[Behaviour] = [
        truthful(0.95),
        truthful(0.9),
        truthful(0.9),
        truthful(0.85),
        spammer,
    ]
    db = panel(tmp_path / "a", sets(60), behaviours, seed=1)
    found = find(db)
    db.close()
    line = found.lines[WHOLE]
    assert line.low < (0.95 + 0.9 + 0.9 + 0.85 + 0.25) / 5 < line.high
    assert (line.n, line.people, line.sets) == (300, 5, 60)
    assert set(found.lines) == {
        WHOLE,
        "/commonsense",
        "/values",
        "/safety",
        "/linguistics",
        "thai/",
    }
    assert min(row.key for row in found.reviewers[:4]) > 0.8 > 0.4 > found.reviewers[4].key
    assert min(row.others for row in found.reviewers[:4]) > 0.6 > 0.4 > found.reviewers[4].others
    assert {row.picks for row in found.reviewers} == {60}
    assert all(5 <= row.seconds <= 60 for row in found.reviewers)
    assert sum(found.verdicts.values()) == 60


def test_votes_marks_and_reasons(tmp_path: Path) -> None:
    def told(_: random.Random, name: str, item: ReviewItem) -> ReviewAnswer | None:
        others = [token for token in item.tokens if token != item.key]
        if item.set.id == "set-0":
            return ReviewAnswer(status="objected", comment="nobody asks this")
        if item.set.id == "set-1":
            return picked(item, item.key, **{others[0]: "right"})
        if item.set.id == "set-3":
            return None
        return picked(item, item.key)

    dataset = sets(4)
    db = panel(tmp_path / "a", dataset, [told] * 3)
    found = find(db)
    made, beside = apply(dataset, found)
    assert beside.reviewers == (), (
        "people agreed to numbers and to comments without their pseudonym"
    )
    assert [item.id for item in made] == ["set-1", "set-2", "set-3"]
    votes = {r.id: (r.votes.asked, r.votes.right) for r in made["set-2"].responses}
    assert votes == {"r0": (3, 3), "r1": (3, 0), "r2": (3, 0), "r3": (3, 0)}
    assert sorted(r.votes.right for r in made["set-1"].responses) == [0, 0, 3, 3]
    assert made["set-3"] == dataset["set-3"]
    assert made["set-2"].provenance.notes == "verified by 3 native speakers (rules strict/1)"
    assert made["set-1"].provenance.notes is None
    assert {one.set_id: one.verdict for one in found.sets if one.verdict != "open"} == {
        "set-0": "retire",
        "set-1": "fix",
        "set-2": "keep",
    }
    assert found.sets[0].comments == ("nobody asks this",) * 3
    assert (found.verdicts["keep"], found.lines[WHOLE].n) == (1, 6)
    with pytest.raises(CarbError, match="other data"):
        apply(sets(2), found)
    db.close()


def test_the_line_travels_with_the_data(tmp_path: Path, carb: Carb) -> None:
    sets(4).save(tmp_path / "data.jsonl")
    panel(tmp_path / "a.reviews", load(tmp_path / "data.jsonl"), [truthful(1)] * 3).close()
    out = tmp_path / "verified.parquet"
    ended = carb(
        "review",
        "apply",
        tmp_path / "a.reviews",
        "--data",
        tmp_path / "data.jsonl",
        "--out",
        out,
        "--json",
    )
    assert ended.code == 0, ended.err
    assert ended.json["verdicts"]["keep"] == 4
    beside = line_beside(out)
    assert beside is not None
    assert beside.fingerprint == load(out).fingerprint == ended.json["fingerprint"]
    assert beside.lines[WHOLE].estimate == 1
    assert line_beside(tmp_path / "data.jsonl") is None
    (tmp_path / "verified.review.json").write_text("{}")
    with pytest.raises(CarbError, match="not a valid result of"):
        line_beside(out)
    shown = carb("review", "apply", tmp_path / "a.reviews").out
    assert re.search(r"all\s+–\s+3\s+12\s+4\b", shown), "3 people and 12 answers are no line"
    assert "A line needs 3 people and 30 answers." in shown
    assert "keep: 4" in shown


def saved(
    item: ReviewItem, answer: ReviewAnswer, reviewer: str, base: int = 0, name: str = "Noi"
) -> dict:
    event = an_event(item, answer, base).model_dump(mode="json")
    person = {"name": name, "consent": 1}
    return {
        "form": "carb.review.answers/1",
        "reviewer": reviewer,
        "person": person,
        "events": [event],
    }


def test_files_are_collected_once_and_corrections_count(tmp_path: Path) -> None:
    db = handing_out.create(tmp_path / "a", sets(3), "test")
    item = next(iter(items(db).values()))
    me, you = str(uuid.uuid4()), str(uuid.uuid4())
    first, other = saved(item, picked(item, item.key), me), saved(item, picked(item, item.key), you)
    better = saved(item, picked(item, item.tokens[0]), me, base=1)
    better["events"] = first["events"] + better["events"]
    paths = []
    for number, content in enumerate([first, other, better]):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(content))
    for state in ("kept", "known"):
        assert [one.state for _, one in collect(db, paths[:2])] == [state] * 2
    assert [one.state for _, one in collect(db, [*paths, paths[0]])] == ["known"] * 3 + [
        "kept",
        "known",
    ]
    assert {one.event.answer.best for one in current_answers(db)} == {item.tokens[0], item.key}
    names = [row["name"] for row in db.execute("SELECT name FROM reviewer ORDER BY rowid")]
    assert names == ["Noi", "Noi 2"]  # two people may choose one pseudonym
    db.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"form": "carb.review.answers/1"}',
        "\x00",
        '{"form": 1e999}',
        '{"events": [1]}',
    ],
)
def test_other_files_are_told_from_answers(tmp_path: Path, text: str, carb: Carb) -> None:
    handing_out.create(tmp_path / "a", sets(2), "test").close()
    (tmp_path / "x.json").write_text(text)
    ended = carb("review", "collect", tmp_path / "a", tmp_path / "x.json")
    assert ended.code == 2
    assert "x.json" in ended.err
    assert "not merged" in carb("review", "collect", tmp_path / "a", tmp_path / "a").err


def test_the_human_line_stands_in_the_report(
    tmp_path: Path, carb: Carb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sets(12).save("data.jsonl")
    panel(tmp_path / "a.reviews", load("data.jsonl"), [truthful(1)] * 3).close()
    assert (
        carb("review", "apply", "a.reviews", "--data", "data.jsonl", "--out", "verified.jsonl").code
        == 0
    )
    for data in ("verified", "data"):
        run = (
            "run",
            "--data",
            f"{data}.jsonl",
            "--scorer",
            "baseline:label",
            "--scorer",
            "baseline:random",
        )
        assert carb(*run, "--out", f"runs/{data}").code == 0
    for name in ("verified.jsonl", "verified.review.json"):
        (tmp_path / name).unlink()  # the run keeps what its report needs
    seen = carb(
        "report",
        "runs/verified",
        "--only",
        "people",
        "--json",
        "report.json",
        "--html",
        "report.html",
    ).out
    people = json.loads((tmp_path / "report.json").read_text())["people"]
    line = people["line"]
    assert (line["share"], line["high"], line["people"], line["sets"]) == (1.0, 1.0, 3, 12)
    who = "3 people of 1 culture gave 36 answers on 12 sets; they pick the key in 100.0%."
    assert who in seen
    assert who in (tmp_path / "report.html").read_text()
    assert f"the key in 100.0% [{100 * line['low']:.1f}" in carb("report", "runs/verified").out
    assert {key.count("/") for key in people["groups"]} == {1}
    assert people["groups"]["thai/"]["answers"] == 36
    assert [row["human_percent"]["estimate"] for row in people["scorers"]] == [1.0, 1.0]
    decided = {row["scorer"]: row["n"] for row in people["scorers"]}
    assert decided == {"baseline:label": 0, "baseline:random": 12}, "ties at the top are no pick"
    assert (
        "Nobody has checked the key"
        in carb("report", "runs/data", "--only", "people", "--html", "other.html").out
    )
    assert "Nobody has checked the key" in (tmp_path / "other.html").read_text()


def test_few_answers_are_no_line(
    tmp_path: Path, carb: Carb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sets(12).save("data.jsonl")
    panel(tmp_path / "a.reviews", load("data.jsonl"), [truthful(1)]).close()
    assert (
        carb("review", "apply", "a.reviews", "--data", "data.jsonl", "--out", "verified.jsonl").code
        == 0
    )
    assert (
        carb("run", "--data", "verified.jsonl", "--scorer", "baseline:length", "--out", "run").code
        == 0
    )
    seen = " ".join(carb("report", "run", "--only", "people").out.split())
    said = "1 person of 1 culture gave 12 answers on 12 sets: too few for a human line."
    assert said in seen
    assert "A line needs 3 people and 30 answers." in seen
    assert "pick the key" not in seen


def printed_by_a_server(*arguments: object) -> str:
    """The output of ``carb review serve`` up to where it serves; it is ended there."""
    command = [sys.executable, "-m", "carb_cli", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        process.kill()
    return "".join(lines)


def test_links_of_this_machine_come_with_what_to_do_for_a_phone(tmp_path: Path, carb: Carb) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra carb-cli[review]")
    serve = (
        "review",
        "serve",
        "--data",
        "carb-seed",
        "--culture",
        "thai",
        "--port",
        "0",
        "--out",
        tmp_path / "a",
    )
    first = " ".join(printed_by_a_server(*serve, "--invite", "2").split())
    assert re.findall(r"(reviewer \d): http://127\.0\.0\.1:\d+/#", first) == [
        "reviewer 1",
        "reviewer 2",
    ]
    assert "on no phone" in first
    assert "--public-url" in first
    assert "`carb review page`" in first
    again = printed_by_a_server(*serve, "--invite", "2", "--public-url", "https://example.org/thai")
    assert "The links printed before stay valid" in again
    assert "on no phone" not in again
    assert "File exists" in carb(*serve[:-1], tmp_path).err
    handing_out.create(tmp_path / "a.reviews", sets(2), "test").close()
    page = carb(
        "review", "page", "--data", "carb-seed", "--culture", "thai", "--out", tmp_path / "a.html"
    )
    assert "a.reviews is a review of other" in page.err
    assert not (tmp_path / "a.html").exists(), "a page whose answers would fit no review"


def test_people_are_asked_about_the_place_where_they_live_in_their_own_language(
    tmp_path: Path,
) -> None:
    thai = reviewable("carb-seed", ("thai",))
    assert {(item.culture, item.language) for item in thai} == {("thai", "th")}
    with pytest.raises(
        CarbError, match=r"people are asked about the one where they live.*arabic-eg \("
    ):
        reviewable("carb-seed", ("arabic",))
    assert {item.language for item in reviewable("carb-seed", ("german-at",))} == {"de"}
    assert len(reviewable("carb-seed")) == len(load("carb-seed"))
    load("carb-seed").filter(lambda item: (item.culture, item.language) == ("thai", "vi")).save(
        tmp_path / "vi.jsonl"
    )
    assert {item.language for item in reviewable(str(tmp_path / "vi.jsonl"), ("thai",))} == {"vi"}
    with pytest.raises(CarbError, match="holds no sets about korean"):
        reviewable(str(tmp_path / "vi.jsonl"), ("korean",))


ITEM = ReviewItem(a_set(0))
KEY = str(ITEM.key)
OTHERS = [token for token in ITEM.tokens if token != KEY]


def of(*answers: ReviewAnswer) -> SetTally:
    return tally(
        ITEM, [GivenAnswer(ITEM, str(n), an_event(ITEM, a)) for n, a in enumerate(answers)]
    )


AGREE, AGAINST = picked(ITEM, KEY), picked(ITEM, OTHERS[0])
TOO, DEPENDS = (
    picked(ITEM, KEY, **{OTHERS[0]: "right"}),
    picked(ITEM, KEY, **{OTHERS[1]: "depends"}),
)
UNKNOWN, OBJECTED = ReviewAnswer(status="unknown"), ReviewAnswer(status="objected")
STILTED = ReviewAnswer(
    status="answered",
    opinions={
        t: Opinion(verdict="best" if t == KEY else "wrong", natural=t != OTHERS[2])
        for t in ITEM.tokens
    },
)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([AGREE] * 3, "keep"),
        ([AGREE] * 2 + [UNKNOWN] * 9, "open"),
        ([AGREE] * 4 + [AGAINST], "keep"),
        ([AGREE] * 2 + [AGAINST], "fix"),
        ([AGREE] + [AGAINST] * 2, "retire"),
        ([AGREE] * 2 + [TOO], "keep"),
        ([AGREE] + [TOO] * 2, "fix"),
        ([AGREE] + [DEPENDS] * 2, "fix"),
        ([AGREE] + [STILTED] * 2, "fix"),
        ([AGREE] * 4 + [OBJECTED], "fix"),
        ([AGREE] + [OBJECTED] * 2, "retire"),
        ([OBJECTED] * 3, "retire"),
        ([], "open"),
    ],
)
def test_the_strict_rules(answers: list[ReviewAnswer], verdict: str) -> None:
    counted = of(*answers)
    assert counted.verdict == verdict
    assert bool(counted.reasons) == (verdict != "keep")


@hypothesis.given(
    st.lists(
        st.sampled_from([AGREE, AGAINST, TOO, DEPENDS, UNKNOWN, OBJECTED, STILTED]), max_size=12
    )
)
def test_a_tally_adds_up_in_any_order(answers: list[ReviewAnswer]) -> None:
    one, two = of(*answers), of(*reversed(answers))
    assert (one.verdict, one.reasons) == (two.verdict, two.reasons)
    assert one.reviews + one.unknown == len(answers)
    assert one.picks + answers.count(OBJECTED) == one.reviews
    for option in one.options:
        assert option.best + option.right + option.wrong + option.depends == one.picks


@hypothesis.given(st.integers(3, 12), st.data())
def test_more_agreement_never_makes_a_verdict_worse(reviewers: int, data: st.DataObject) -> None:
    rank = {"retire": 0, "fix": 1, "keep": 2}
    against = data.draw(st.integers(0, reviewers))
    found = [
        rank[of(*[AGAINST] * n, *[AGREE] * (reviewers - n)).verdict] for n in range(against, -1, -1)
    ]
    assert all(a <= b for a, b in pairwise(found))
