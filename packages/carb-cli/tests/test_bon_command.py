"""``carb bon`` as a user types it, with responses from a file."""

import csv
import json

import pytest


@pytest.fixture
def task(tmp_path):
    """Two questions in BLEnD's form, and four responses to each."""
    (tmp_path / "blend" / "annotations").mkdir(parents=True)
    (tmp_path / "blend" / "questions").mkdir()
    items = {
        key: {
            "question": f"{key}?",
            "en_question": f"{key}?",
            "annotations": [{"answers": [answer], "en_answers": [answer], "count": 3}],
            "idks": {},
        }
        for key, answer in (("q1", "green tea"), ("q2", "rice"))
    }
    (tmp_path / "blend" / "annotations" / "UK_data.json").write_text(json.dumps(items))
    with (tmp_path / "blend" / "questions" / "UK_questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["ID", "Topic"], ["q1", "Food"], ["q2", "Food"]])
    rows = [
        {"prompt_id": "UK/q1/en", "responses": ["green tea", "milk", "beer", "tea"]},
        {"prompt_id": "UK/q2/en", "responses": ["rice", "potatoes", "bread", "rice and potatoes"]},
    ]
    (tmp_path / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"blend:{tmp_path / 'blend'}?places=UK", f"file:{tmp_path / 'responses.jsonl'}"


def test_length_picks_the_longest(carb, task, tmp_path):
    spec, policy = task
    call = [
        "bon",
        "--policy",
        policy,
        "--task",
        spec,
        "--n",
        4,
        "--scorer",
        "baseline:length",
        "--out",
        tmp_path / "o",
    ]
    done = carb(*call, "--json", "--quiet")
    assert done.code == 0, done.err
    found = done.json
    assert (found["n"], found["prompts"]) == (4, 2)
    assert (found["random"], found["best"]) == (pytest.approx(3 / 8), 1)
    (scorer,) = found["scorers"]
    assert (scorer["quality"], scorer["regret"], scorer["prompts"]) == (1, 0, 2)
    assert 0 <= scorer["low"] < scorer["quality"] <= scorer["high"] <= 1, (
        "two prompts do not reach beyond the scale"
    )
    assert [point["n"] for point in scorer["curve"]] == [1, 2, 4]
    assert scorer["curve"][1]["picked"] == pytest.approx((3 / 6 + 3 / 6) / 2)
    shown = carb(*call)
    assert "best available" in shown.out
    assert json.loads((tmp_path / "o" / "bon.json").read_text())["random"] == found["random"]


def test_a_scorer_that_is_told_the_culture_is_marked(carb, task, tmp_path):
    spec, policy = task
    scorers = ("baseline:label", "baseline:length")
    call = ["bon", "--policy", policy, "--task", spec, "--n", 4, "--scorer", *scorers]
    done = carb(*call, "--out", tmp_path / "o", "--json", "--quiet").json
    assert [one["mark"] for one in done["scorers"]] == ["told the culture", ""]
    shown = carb(*call, "--out", tmp_path / "o").out
    [line] = [line for line in shown.splitlines() if "told the culture" in line]
    assert "baseline:label" in line


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"--task": None}, "--task"),
        ({"--task": "bland:x"}, "write KIND:PATH"),
        ({"--n": "0"}, "at least one sample"),
    ],
)
def test_wrong_use(carb, task, tmp_path, change, told):
    spec, policy = task
    flags = {
        "--task": spec,
        "--policy": policy,
        "--n": "2",
        "--scorer": "baseline:length",
        "--out": tmp_path / "o",
    }
    flags |= change
    done = carb(
        "bon",
        *(part for flag, value in flags.items() if value is not None for part in (flag, value)),
    )
    assert done.code == 2
    assert told in done.err
