"""What comes out of a review: planted truths, votes in the data set, and answers from files of every form."""

from __future__ import annotations

import json
import random
import secrets
import shutil
import uuid
from pathlib import Path

import numpy as np
import pytest

from carb_cli.review import people, project
from carb_cli.review.answers import Opinion, Person, ReviewAnswer
from carb_cli.review.applying import apply, line_beside
from carb_cli.review.collecting import collect
from carb_cli.review.exchange import export_to, import_from
from carb_cli.review.items import ReviewItem
from carb_cli.review.order import next_items
from carb_cli.review.recording import given, items, record
from carb_cli.review.report import line_of, report, unbiased
from carb_cli.review.rules import read_rules
from carb_cli.review.sheets import read_sheet, write_sheet
from carb_cli.review.store import transaction
from carb_cli.selection import reviewable
from carb_data import CarbError, Dataset, Response, load
from cli_helpers import Carb, small_family
from review_helpers import Behaviour, a_set, an_event, panel, picked, sets, truthful

STRICT = read_rules()


@pytest.fixture(autouse=True)
def _the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A review draws ids and orders anew. Here each test draws the same ones in every run, so that a claim about a
    mean cannot fail by chance."""
    drawn = random.Random(0)
    monkeypatch.setattr(secrets, "token_hex", lambda n=16: drawn.randbytes(n).hex())
    monkeypatch.setattr(secrets, "randbits", drawn.getrandbits)
    monkeypatch.setattr(random, "SystemRandom", lambda: drawn)


def spammer(rng: random.Random, _: str, item: ReviewItem) -> ReviewAnswer:
    return picked(item, rng.choice(item.tokens))


def southern(rng: random.Random, name: str, item: ReviewItem) -> ReviewAnswer:
    """On half of the sets another answer is right in the south."""
    if int(item.id, 16) % 2:
        return picked(item, next(token for token in item.tokens if token != item.key))
    return truthful(0.95)(rng, name, item)


def test_a_planted_panel_is_seen_through(tmp_path: Path) -> None:
    behaviours: list[Behaviour] = [truthful(0.95), truthful(0.9), truthful(0.9), truthful(0.85), spammer]
    gold = [f"set-{n}" for n in range(12)]
    db = panel(tmp_path / "a", sets(60), behaviours, seed=1, gold=gold)
    found = report(db, STRICT)
    db.close()
    line = found.lines.overall
    assert line.low < (0.95 + 0.9 + 0.9 + 0.85 + 0.25) / 5 < line.high
    assert (line.answers, line.people, line.sets) == (300, 5, 60)
    assert set(found.lines.by_domain) == {"commonsense", "values", "safety", "linguistics"}
    reliabilities = [row.reliability for row in found.reviewers]
    assert min(reliabilities[:4]) > 0.85 > 0.75 > reliabilities[4]
    assert [row.gold_sets for row in found.reviewers] == [12] * 5
    assert found.reviewers[4].gold < 0.6 < found.reviewers[0].gold
    assert all(5 <= row.seconds <= 60 for row in found.reviewers)
    assert found.agreement.krippendorff.low < found.agreement.gwet.estimate < found.agreement.percent.high
    assert sum(found.verdicts.values()) == 60
    assert found.regions.p is None


def test_regions_that_differ_are_named(tmp_path: Path) -> None:
    behaviours = [truthful(0.95)] * 4 + [southern] * 4
    regions = ["North", "north ", "NORTH", "north", "south", "South", "south", "south"]
    db = panel(tmp_path / "a", sets(40), behaviours, seed=2, regions=regions)
    gap = report(db, STRICT).regions
    db.close()
    assert gap.regions == ("north", "south")
    assert gap.p < 0.06
    assert gap.within > gap.between + 0.2


def partial(path: Path, dataset: Dataset, hard: set[str], seed: int, share: float) -> tuple[float, float]:
    """Reviewers who stop early in an adaptive order: the random share's mean, and the hard sets' part of the rest."""
    db = project.create(path, dataset, "test", random_share=share)
    db.execute("UPDATE project SET value = ? WHERE name = 'seed'", (str(seed),))
    project.hand_out(db, 10)
    rng = random.Random(seed)
    known, plan = items(db), project.plan_of(db)
    with transaction(db):
        for row in db.execute("SELECT id FROM reviewer ORDER BY rowid").fetchall():
            people.introduce(db, row["id"], Person(consent=1))
            for _ in range(len(dataset) * 2 // 5):
                ((item, _),) = next_items(db, known, row["id"], plan, 1)
                answer = truthful(0.3 if item.set_id in hard else 0.95)(rng, "", item)
                assert record(db, row["id"], an_event(item, answer)).done
    answers = list(given(db))
    db.close()
    aimed = [one.item.set_id in hard for one in answers if one.arm == "telling"]
    return line_of(unbiased(answers, len(dataset))).share, sum(aimed) / len(aimed)


def test_the_random_share_keeps_the_mean_unbiased(tmp_path: Path) -> None:
    """The order asks more of the sets that are open, a quarter here; the mean of the random share does not feel it."""
    dataset = sets(40)
    hard = {f"set-{n}" for n in range(10)}
    truth = 0.25 * 0.3 + 0.75 * 0.95
    found = np.array([partial(tmp_path / f"r{n}", dataset, hard, n, 0.4) for n in range(16)])
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert abs(found[:, 0].mean() - truth) < 3 * error[0]
    assert found[:, 1].mean() - 0.25 > 3 * error[1]


def test_votes_marks_and_reasons(tmp_path: Path) -> None:
    def told(_: random.Random, name: str, item: ReviewItem) -> ReviewAnswer | None:
        others = [token for token in item.tokens if token != item.key]
        if item.set_id == "set-0":
            return ReviewAnswer(status="objected", comment="nobody asks this")
        if item.set_id == "set-1":
            return picked(item, item.key, **{others[0]: "right"})
        if item.set_id == "set-3":
            return None
        return picked(item, item.key)

    dataset = sets(4)
    db = panel(tmp_path / "a", dataset, [told] * 3)
    found = report(db, STRICT)
    made, applied = apply(dataset, found)
    assert [item.id for item in made] == ["set-1", "set-2", "set-3"]
    votes = {r.id: (r.votes.asked, r.votes.right) for r in made["set-2"].responses}
    assert votes == {"r0": (3, 3), "r1": (3, 0), "r2": (3, 0), "r3": (3, 0)}
    assert sorted(r.votes.right for r in made["set-1"].responses) == [0, 0, 3, 3]
    assert made["set-3"] == dataset["set-3"]
    assert made["set-2"].provenance.notes == "verified by 3 native speakers (rules strict/1)"
    assert made["set-1"].provenance.notes is None
    assert {one.set_id: one.verdict for one in applied.sets} == {"set-0": "retire", "set-1": "fix", "set-2": "keep"}
    assert applied.sets[0].tally.comments == ("nobody asks this",) * 3
    assert (applied.verified, applied.lines.overall.answers) == (1, 6)
    only, _ = apply(dataset, found, verified_only=True)
    assert [item.id for item in only] == ["set-2"]
    with pytest.raises(CarbError, match="other data"):
        apply(sets(2), found)
    db.close()


def test_a_family_that_loses_a_set_is_named(tmp_path: Path, carb: Carb) -> None:
    def told(_: random.Random, name: str, item: ReviewItem) -> ReviewAnswer | None:
        return ReviewAnswer(status="objected") if item.set_id == "f1-2" else picked(item, item.key)

    dataset = Dataset(item for n in range(3) for item in small_family(n))
    dataset.save(tmp_path / "data.jsonl")
    panel(tmp_path / "a.reviews", dataset, [told] * 3).close()
    call = ("review", "apply", tmp_path / "a.reviews", "--data", tmp_path / "data.jsonl", "--out", tmp_path / "v.jsonl")
    assert (carb(*call, "--json").json["kept"], carb(*call, "--json").json["incomplete"]) == (11, ["f1"])
    assert "1 of their mirrored families lacks the set of one of the answers" in carb(*call).out


def test_the_line_travels_with_the_data(tmp_path: Path, carb: Carb) -> None:
    sets(4).save(tmp_path / "data.jsonl")
    panel(tmp_path / "a.reviews", load(tmp_path / "data.jsonl"), [truthful(1)] * 3).close()
    out = tmp_path / "verified.parquet"
    ended = carb("review", "apply", tmp_path / "a.reviews", "--data", tmp_path / "data.jsonl", "--out", out, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["verified"] == 4
    beside = line_beside(out)
    assert beside is not None
    assert beside.fingerprint == load(out).fingerprint == ended.json["fingerprint"]
    assert beside.lines.overall.share == 1
    assert line_beside(tmp_path / "data.jsonl") is None
    (tmp_path / "verified.review.json").write_text("{}")
    with pytest.raises(CarbError, match="not a valid result of"):
        line_beside(out)
    shown = carb("review", "report", tmp_path / "a.reviews").out
    assert "Human line" in shown
    assert "keep: 4" in shown


def saved(item: ReviewItem, answer: ReviewAnswer, reviewer: str, base: int = 0, name: str = "Noi") -> dict:
    event = an_event(item, answer, base).model_dump(mode="json")
    person = {"name": name, "consent": 1}
    return {"form": "carb.review.answers/1", "reviewer": reviewer, "person": person, "events": [event]}


def test_files_are_collected_once_and_corrections_count(tmp_path: Path) -> None:
    db = project.create(tmp_path / "a", sets(3), "test")
    item = next(iter(items(db).values()))
    me, you = str(uuid.uuid4()), str(uuid.uuid4())
    first, other = saved(item, picked(item, item.key), me), saved(item, picked(item, item.key), you)
    better = saved(item, picked(item, item.tokens[0]), me, base=1)
    better["events"] = first["events"] + better["events"]
    paths = []
    for number, content in enumerate([first, other, better]):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(content))
    assert (collect(db, paths[:2]).new, collect(db, paths[:2]).known) == (2, 2)
    found = collect(db, [*paths, paths[0]])
    assert (found.new, found.known, found.refused) == (1, 4, ())
    assert {one.answer.best for one in given(db)} == {item.tokens[0], item.key}
    names = [row["name"] for row in db.execute("SELECT name FROM reviewer ORDER BY rowid")]
    assert names == ["Noi", "Noi 2"]  # two people may choose one pseudonym
    db.close()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"form": "carb.review.answers/1"}', "\x00", '{"form": 1e999}']
)
def test_other_files_are_told_from_answers(tmp_path: Path, text: str, carb: Carb) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra carb-cli[review]")
    project.create(tmp_path / "a", sets(2), "test").close()
    (tmp_path / "x.json").write_text(text)
    (tmp_path / "x.xlsx").write_text(text)
    for name in ("x.json", "x.xlsx"):
        ended = carb("review", "collect", tmp_path / name, "--out", tmp_path / "a")
        assert ended.code == 2
        assert name in ended.err


def test_an_answer_that_fits_no_item_is_named_and_the_others_count(tmp_path: Path, carb: Carb) -> None:
    db = project.create(tmp_path / "a", sets(2), "test")
    item, other = items(db).values()
    db.close()
    content = saved(item, picked(item, item.key), str(uuid.uuid4()))
    content["events"].append(an_event(other, picked(item, item.key)).model_dump(mode="json") | {"shown": item.tokens})
    (tmp_path / "x.json").write_text(json.dumps(content))
    ended = carb("review", "collect", tmp_path / "x.json", "--out", tmp_path / "a", "--json")
    assert ended.code == 1
    assert ended.json["new"] == 1
    assert "order shown" in ended.json["refused"][0]


def filled(path: Path, item: ReviewItem, name: str = "Noi", **cells: object) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    book["you"]["B1"], book["you"]["B4"] = name, "Yes"
    sheet = book["answers"]
    head = [cell.value for cell in sheet[1]]
    row = next(r for r in sheet.iter_rows(min_row=2) if r[0].value == item.id)
    for name, value in cells.items():
        row[head.index(name.replace("_", " "))].value = value
    book.save(path)


def test_a_sheet_goes_out_and_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra carb-cli[review]")
    hostile = a_set(0, prompt="=HYPERLINK(\"http://x\",\"y\")\x07", responses=tuple(
        Response(id=f"r{n}", text=f"{sign}1+1 {n}", role="rejected" if n else "chosen", language="th")
        for n, sign in enumerate("=+-@")
    ))  # fmt: skip
    dataset = Dataset([hostile, a_set(1), a_set(2)])
    db = project.create(tmp_path / "a", dataset, "test")
    known = list(items(db).values())
    path = tmp_path / "sheet.xlsx"
    assert write_sheet(known, path) == 3
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(path)["answers"]
    assert {cell.data_type for row in sheet.iter_rows() for cell in row if cell.value is not None} == {"s"}
    filled(path, known[0], best=2.0, right_too="3", depends="4", on="Region, religion", which="north", unnatural="1")
    filled(path, known[1], best="x", comment="=cmd|' /C calc'!A0")
    collected = collect(db, [path])
    assert (collected.new, collected.refused) == (2, ())
    assert collect(db, [path]).known == 2
    first, second = given(db)
    verdicts = [first.answer.opinions[token].verdict for token in first.shown]
    assert verdicts == ["wrong", "best", "right", "depends"]
    assert first.answer.opinions[first.shown[3]] == Opinion(verdict="depends", on=("region", "religion"), which="north")
    assert first.answer.opinions[first.shown[0]].natural is False
    assert (second.answer.status, second.answer.comment) == ("objected", "=cmd|' /C calc'!A0")
    filled(path, known[2], best="7")
    assert "row 4: answers are numbered 1 to 4" in collect(db, [path]).refused[0]
    filled(path, known[2], best="2", right_too="two")
    with pytest.raises(CarbError, match="row 4: 'two' is no number"):
        read_sheet(path)
    db.close()


def test_copies_of_one_sheet_are_answers_of_as_many_people(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra carb-cli[review]")
    db = project.create(tmp_path / "a", sets(1), "test")
    (item,) = items(db).values()
    path, copy = tmp_path / "sheet.xlsx", tmp_path / "copy.XLSX"
    write_sheet([item], path)
    shutil.copy(path, copy)
    filled(path, item, "Amina", best="1")
    filled(copy, item, "Juma", best="2", right_too=3.4)  # "3,4", as a program with decimal commas keeps it
    assert collect(db, [path, copy]).new == 2
    first, second = sorted(given(db), key=lambda one: one.shown.index(one.answer.best))
    assert (first.shown.index(first.answer.best), second.shown.index(second.answer.best)) == (0, 1)
    assert first.reviewer != second.reviewer
    assert [second.answer.opinions[token].verdict for token in second.shown] == ["wrong", "best", "right", "right"]
    assert collect(db, [path, copy]).known == 2
    filled(path, item, "  ", best="1")
    with pytest.raises(CarbError, match="has no pseudonym"):
        read_sheet(path)
    db.close()


def test_label_studio_and_back(tmp_path: Path) -> None:
    import xml.etree.ElementTree as ElementTree

    db = project.create(tmp_path / "a", sets(3), "test")
    known = items(db)
    assert export_to("label-studio", list(known.values()), tmp_path / "ls") == 3
    view = ElementTree.parse(tmp_path / "ls" / "labeling.xml").getroot()
    names = {e.get("name") for e in view.iter() if e.get("toName")}
    tasks = json.loads((tmp_path / "ls" / "tasks.json").read_text())
    data = tasks[0]["data"]
    assert {e.get("value") for e in view.iter("Text")} <= {f"${name}" for name in data}
    assert not any(f'"r{n}"' in json.dumps(tasks) for n in range(4))  # nothing names the key
    place = str(data["shown"].index(known[data["item"]].key) + 1)
    other = "1" if place != "1" else "2"
    values = {"best": [place], "depends": [other], "on": ["generation"], "unnatural": [other]}
    result = [{"from_name": n, "type": "choices", "value": {"choices": v}} for n, v in values.items()]
    result.append({"from_name": "comment", "type": "textarea", "value": {"text": ["fine"]}})
    assert {part["from_name"] for part in result} <= names
    tasks[0]["annotations"] = [{"completed_by": {"id": 7, "email": "a@b.c"}, "lead_time": 12.5, "result": result}]
    tasks[1]["annotations"] = [{"completed_by": 7, "was_cancelled": True, "result": []}]
    tasks[2]["annotations"] = [{"completed_by": 7, "result": []}]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = import_from("label-studio", db, tmp_path / "export.json")
    assert (found.new, len(found.refused)) == (1, 1)
    (one,) = given(db)
    assert (one.answer.best, one.answer.comment, one.active_ms) == (one.item.key, "fine", 12_500)
    assert b"a@b.c" not in (tmp_path / "a").read_bytes()
    assert import_from("label-studio", db, tmp_path / "export.json").known == 1
    with pytest.raises(CarbError, match="no export of argilla"):
        import_from("argilla", db, tmp_path / "export.json")
    db.close()


def test_argilla_and_back(tmp_path: Path) -> None:
    db = project.create(tmp_path / "a", sets(2), "test")
    known = items(db)
    export_to("argilla", list(known.values()), tmp_path / "ar")
    settings = json.loads((tmp_path / "ar" / ".argilla" / "settings.json").read_text())
    records = json.loads((tmp_path / "ar" / "records.json").read_text())
    assert {f["name"] for f in settings["fields"]} >= set(records[0]["fields"])
    shown = records[0]["metadata"]["shown"].split()
    best = str(shown.index(known[records[0]["id"]].key) + 1)
    users = [str(uuid.uuid4()) for _ in range(2)]
    records[0]["responses"] = {
        "best": [{"value": best, "user_id": users[0]}, {"value": "?", "user_id": users[1]}],
        "comment": [{"value": "clear", "user_id": users[0]}],
    }
    (tmp_path / "ar" / "records.json").write_text(json.dumps(records))
    found = import_from("argilla", db, tmp_path / "ar")
    assert (found.new, found.reviewers, found.refused) == (2, 2, ())
    assert sorted(one.answer.status for one in given(db)) == ["answered", "unknown"]
    db.close()


def test_perturbed_versions_are_a_second_task(tmp_path: Path) -> None:
    changed = Response(id="cc", text="another custom", role="chosen", language="th", perturbation="CC", original="r0")
    dataset = Dataset([a_set(0, perturbed=(changed,)), a_set(1)])

    def told(_: random.Random, name: str, item: ReviewItem) -> ReviewAnswer:
        if item.kind == "choice":
            return picked(item, item.key)
        opinions = {"version": Opinion(natural=False)}
        return ReviewAnswer(status="answered", meaning="changed", concept="changed", opinions=opinions)

    db = panel(tmp_path / "a", dataset, [told] * 3, versions=True)
    name = db.execute("SELECT id FROM reviewer LIMIT 1").fetchone()["id"]
    assert [row["kind"] for row in db.execute("SELECT kind FROM item ORDER BY rowid")] == [
        "choice",
        "choice",
        "version",
    ]
    found = report(db, STRICT)
    assert [row.model_dump() for row in found.versions] == [
        {"perturbation": "CC", "answers": 3, "same_meaning": 0.0, "same_concept": 0.0, "unnatural": 1.0}
    ]
    assert found.lines.overall.answers == 6
    assert next_items(db, items(db), name, project.plan_of(db), 5) == []
    db.close()


def test_a_judge_shortens_the_interval_and_does_not_bend_it(tmp_path: Path) -> None:
    """People answer a third of the sets; a judge that knows the hard sets, with one slip in twenty, answers all."""
    hits, shorter = 0, []
    for seed in range(14):
        rng = random.Random(seed)
        hard = {f"set-{n}" for n in range(90) if rng.random() < 0.3}

        def told(rng: random.Random, name: str, item: ReviewItem, hard: set[str] = hard) -> ReviewAnswer | None:
            asked = int(item.id, 16) % 3 == 0
            return truthful(0.1 if item.set_id in hard else 0.95)(rng, name, item) if asked else None

        db = panel(tmp_path / f"r{seed}", sets(90), [told] * 2, seed=seed, random_share=1.0)
        judge = {f"set-{n}": float((f"set-{n}" not in hard) ^ (rng.random() < 0.05)) for n in range(90)}
        powered = report(db, STRICT, judge).powered
        row = powered.by_culture[0]
        db.close()
        truth = (len(hard) * 0.1 + (90 - len(hard)) * 0.95) / 90
        assert powered.by_domain[0] == row
        assert len(powered.by_culture) > 1
        hits += row.estimate.low <= truth <= row.estimate.high
        shorter.append((row.estimate.high - row.estimate.low) / (row.people_alone.high - row.people_alone.low))
    assert hits >= 11  # 13 expected; fewer than 11 has a chance of 3% at a coverage of 95%
    assert sum(shorter) / 14 < 0.9  # √(1 − ρ²·2/3) with ρ about 0.7 is 0.82


def test_the_human_line_stands_in_the_report(tmp_path: Path, carb: Carb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sets(8).save("data.jsonl")
    panel(tmp_path / "a.reviews", load("data.jsonl"), [truthful(1)] * 3).close()
    assert carb("review", "apply", "a.reviews", "--data", "data.jsonl", "--out", "verified.jsonl").code == 0
    for data in ("verified", "data"):
        run = ("run", "--data", f"{data}.jsonl", "--scorer", "baseline:length", "--scorer", "baseline:random")
        assert carb(*run, "--out", f"runs/{data}").code == 0
    for name in ("verified.jsonl", "verified.review.json"):
        (tmp_path / name).unlink()  # the run keeps what its report needs
    seen = carb("report", "runs/verified", "--json", "report.json", "--html", "report.html", "--md", "report.md").out
    human = json.loads((tmp_path / "report.json").read_text())["dataset"]["human"]
    assert (human["share"], human["high"], human["people"], human["sets"]) == (1.0, 1.0, 3, 8)
    limits = f"{100 * human['low']:.1f}"
    assert f"human line 100.0% [{limits}" in seen
    assert f"human line 100.0% [{limits}" in (tmp_path / "report.md").read_text()
    assert f'id="human-line">100.0% [{limits}' in (tmp_path / "report.html").read_text()
    groups = json.loads((tmp_path / "report.json").read_text())["dataset"]["human_groups"]
    assert {key.count("/") for key in groups} == {1}
    assert groups["thai/"]["answers"] == 24
    assert "human line" not in carb("report", "runs/data", "--html", "other.html").out
    assert 'id="human-line"' not in (tmp_path / "other.html").read_text()


def test_a_part_of_a_reviewed_data_set_has_the_line_of_the_whole(
    tmp_path: Path, carb: Carb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sets(8).save("data.jsonl")
    panel(tmp_path / "a.reviews", load("data.jsonl"), [truthful(1)] * 3).close()
    assert carb("review", "apply", "a.reviews", "--data", "data.jsonl", "--out", "verified.jsonl").code == 0
    run = ("run", "--data", "verified.jsonl", "--scorer", "baseline:length", "--out", "part", "--limit", "4")
    assert carb(*run).code == 0
    assert "on the whole reviewed data set" in " ".join(carb("report", "part", "--html", "part.html").out.split())
    assert "on the whole reviewed data set" in (tmp_path / "part.html").read_text()
    (tmp_path / "verified.jsonl").write_bytes((tmp_path / "data.jsonl").read_bytes())  # no longer what was reviewed
    assert carb(*run, "--fresh").code == 0
    assert "human line" not in carb("report", "part").out


def test_people_are_asked_about_the_place_where_they_live_in_a_language_that_they_read(
    tmp_path: Path, carb: Carb, monkeypatch: pytest.MonkeyPatch
) -> None:
    thai = reviewable("carb-seed@2", ("thai",))
    assert {(item.culture, item.language) for item in thai} == {("thai", "th")}
    abroad = reviewable("carb-seed@2", ("thai",), ("vi",))
    assert {(item.culture, item.language) for item in abroad} == {("thai", "vi")}
    assert {item.language for item in reviewable("carb-seed@2", ("german-at",))} == {"de"}
    assert len(reviewable("carb-seed@2")) == len(load("carb-seed@2"))
    monkeypatch.chdir(tmp_path)
    asked = ("review", "page", "--data", "carb-seed@2", "--culture", "thai")
    ended = carb(*asked, "--language", "sw", "--out", "a.html")
    assert ended.code == 2
    assert "sets are in:" in ended.err
    assert "Name one with --language" in " ".join(ended.err.split())
    ended = carb(*asked, "--versions", "--out", "a.xlsx")
    assert ended.code == 2
    assert "a sheet has no second task" in " ".join(ended.err.split())
