"""Import and export: RewardBench 2 rows, preference pairs, folders of the ``datasets`` library."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, Dataset, Role, load
from carb_data.models import BonSet, Votes
from carb_data.sources import Skip, build, export, rows

SAID = {"culture": "english", "domain": "commonsense"}
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)


def best_of_four(**changes) -> dict:
    row = {"id": "7", "prompt": "p?", "chosen": ["right"], "rejected": ["a", "b", "c"], "num_correct": 1}
    row |= {"num_incorrect": 3, "total_completions": 4, "models": ["m0", "m1", "m2", "m3"], "subset": "Focus"}
    return row | {"additional_metadata": {"x": 1}} | changes


def write(folder: Path, content: list, name: str = "rows.jsonl") -> Path:
    (folder / name).write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in content), encoding="utf-8")
    return folder


@given(
    answers=st.lists(st.lists(texts, min_size=2, max_size=5), min_size=1, max_size=6),
    seed=st.integers(0, 2),
)
@settings(max_examples=40, deadline=None)
def test_every_row_of_rewardbench2_is_a_set_or_a_skip(answers, seed):
    content = [best_of_four(id=str(n), chosen=a[:1], rejected=a[1:], models=None) for n, a in enumerate(answers)]
    with tempfile.TemporaryDirectory() as folder:
        got = list(rows("rewardbench2", write(Path(folder), content), seed=seed, **SAID))
        assert got == list(rows("rewardbench2", folder, seed=seed, **SAID))
    assert len(got) == len(answers)
    for row, given_answers in zip(got, answers, strict=True):
        assert isinstance(row, BonSet) == (len(set(given_answers)) == len(given_answers))
        if isinstance(row, BonSet):
            assert row.chosen.text == given_answers[0]
            assert {r.text for r in row.rejected} == set(given_answers[1:])


def test_rewardbench2_keeps_models_and_says_what_it_skips(tmp_path):
    content = [
        best_of_four(),
        best_of_four(id="8", chosen=["right", "also right"]),
        best_of_four(id="9", rejected=[]),
        best_of_four(id="10", prompt=" "),
        best_of_four(id="11", rejected=["right", "b"]),
        "not json",
        "[1]",
    ]
    got = list(rows("rewardbench2", write(tmp_path, content), **SAID))
    assert {r.text: r.generator for r in got[0].responses} == {"right": "m0", "a": "m1", "b": "m2", "c": "m3"}
    assert (got[0].id, got[0].topic) == ("rewardbench2/7", "Focus")
    assert [row.reason for row in got[1:]] == [
        "several right answers",
        "prompt, chosen or rejected is missing or empty",
        "prompt, chosen or rejected is missing or empty",
        "two of the responses are the same",
        "the line is not a JSON object",
        "the line is not a JSON object",
    ]


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"prompt": "p", "chosen": "c", "rejected": "r"}, "p"),
        ({"prompt": [{"role": "user", "content": "p"}], "chosen": "c", "rejected": "r"}, "p"),
        (
            {
                "prompt": [{"role": "user", "content": "p"}],
                "chosen": [{"role": "assistant", "content": "c"}],
                "rejected": [{"role": "assistant", "content": "r"}],
            },
            "p",
        ),
        (
            {
                "chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "c"}],
                "rejected": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}],
            },
            "p",
        ),
        (
            {
                "chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "c"}],
                "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}],
            },
            None,
        ),
        ({"prompt": "p", "chosen": "c"}, None),
        ({"prompt": "p", "chosen": "c", "rejected": "c"}, None),
        ({"prompt": "p", "chosen": 3, "rejected": {"x": 1}}, None),
    ],
)
def test_pairs_of_every_form(tmp_path, row, prompt):
    (got,) = rows("pairs", write(tmp_path, [row]), **SAID)
    if prompt is None:
        assert isinstance(got, Skip)
    else:
        assert (got.prompt, got.chosen.text, got.rejected[0].text) == (prompt, "c", "r")


def test_what_the_rows_do_not_say_must_be_said(tmp_path):
    write(tmp_path, [{"prompt": "p", "chosen": "c", "rejected": "r"}])
    with pytest.raises(CarbError, match="give the options culture and domain"):
        list(rows("pairs", tmp_path))
    with pytest.raises(CarbError, match=r"no domain 'vlaues'\. Did you mean 'values'"):
        list(rows("pairs", tmp_path, culture="english", domain="vlaues"))
    with pytest.raises(CarbError, match="unknown culture 'klingon'"):
        build("pairs", tmp_path, tmp_path / "o.jsonl", culture="klingon", domain="values")
    (tmp_path / "rows.txt").write_text("x")
    with pytest.raises(CarbError, match=r"holds no \.jsonl"):
        list(rows("pairs", tmp_path / "rows.txt"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(CarbError, match=r"Cannot read .*bad\.json"):
        list(rows("pairs", tmp_path / "bad.json", **SAID))


def content_of(sets) -> list:
    return sorted(
        (s.prompt, s.culture, s.domain, s.language, s.topic, s.chosen.text, *sorted(r.text for r in s.rejected))
        for s in sets
    )


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_rewardbench2_there_and_back(tmp_path, name):
    seed = load("carb-seed@1")
    assert export(seed, tmp_path / name, "rewardbench2") == len(seed)
    build("rewardbench2", tmp_path / name, tmp_path / "back" / "sets.jsonl")
    back = Dataset.load(tmp_path / "back" / "sets.jsonl")
    want = [(s.prompt, s.culture, s.language, s.chosen.text) for s in seed]
    assert sorted(want) == sorted((s.prompt, s.culture, s.language, s.chosen.text) for s in back)
    assert len({s.source_item for s in back}) == len({s.source_item for s in seed})


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_pairs_there_and_back(tmp_path, name):
    seed = load("carb-seed@1")
    written = export(seed, tmp_path / name, "pairs")
    assert written == sum(len(s.rejected) for s in seed)
    got = list(rows("pairs", tmp_path / name))
    assert len(got) == written
    assert {r.text for s in got for r in s.rejected} == {r.text for s in seed for r in s.rejected}
    assert len({s.source_item for s in got}) == len({s.source_item for s in seed})
    assert all(sum(r.role is Role.CHOSEN for r in s.responses) == 1 for s in got)


def test_export_needs_a_known_form(tmp_path):
    with pytest.raises(CarbError, match="Did you mean 'pairs'"):
        export([], tmp_path / "x.jsonl", "pair")
    with pytest.raises(CarbError, match="unknown file type"):
        export([], tmp_path / "x.csv", "pairs")


def test_folders_of_the_datasets_library(tmp_path):
    library = pytest.importorskip("datasets", reason="the extra 'datasets' is not installed")
    seed = load("carb-seed@1")[:12]
    assert export(seed, tmp_path / "exported", "datasets") == 12
    assert content_of(s for s in rows("datasets", tmp_path / "exported")) == content_of(
        s.model_copy(update={"topic": s.topic or s.domain.value}) for s in seed
    )
    whole = library.Dataset.from_list([s.model_dump(mode="json") for s in seed])
    library.DatasetDict({"train": whole, "test": whole.select(range(2))}).save_to_disk(str(tmp_path / "whole"))
    build("datasets", tmp_path / "whole", tmp_path / "back.jsonl", split="train")
    assert Dataset.load(tmp_path / "back.jsonl").fingerprint == seed.fingerprint
    assert len(list(rows("datasets", tmp_path / "whole", split="test"))) == 2
    with pytest.raises(CarbError, match="has no split 'dev'; it has test, train"):
        list(rows("datasets", tmp_path / "whole", split="dev"))
    with pytest.raises(CarbError, match=r"is not a folder that Dataset\.save_to_disk wrote"):
        list(rows("datasets", tmp_path))


def test_the_seed_is_read_from_a_folder_that_the_library_made_of_its_file(tmp_path):
    library = pytest.importorskip("datasets", reason="the extra 'datasets' is not installed")
    seed = load("carb-seed").filter(cultures=["german"])
    seed.save(tmp_path / "seed.jsonl")
    read = library.load_dataset("json", data_files=str(tmp_path / "seed.jsonl"), cache_dir=str(tmp_path / "cache"))
    read.save_to_disk(str(tmp_path / "folder"))
    assert Dataset(rows("datasets", tmp_path / "folder")).fingerprint == seed.fingerprint


def test_a_row_that_is_no_set_is_skipped(tmp_path):
    item = load("carb-seed@1")[0].model_dump(mode="json")
    write(tmp_path, [item, item | {"prompt": ""}, item | {"responses": item["responses"][:1]}])
    got = list(rows("pairs", tmp_path))
    assert got[0].id == item["id"]
    assert [row.reason.split(":")[0] for row in got[1:]] == ["not a set", "not a set"]


@pytest.mark.parametrize("form", ["rewardbench2", "datasets"])
@pytest.mark.parametrize("name", ["carb-seed@1", "carb-seed@2"])
def test_an_export_and_back_keeps_ids_pages_votes_and_licence(tmp_path, form, name):
    if form == "datasets":
        pytest.importorskip("datasets", reason="needs the extra 'datasets'")
    bare = [item.model_copy(update={"perturbed": ()}) for item in load(name)[:12]]
    voted = bare[0].responses[0].model_copy(update={"votes": Votes(asked=5, right=4), "language": "fr"})
    sets = Dataset([bare[0].model_copy(update={"responses": (voted, *bare[0].responses[1:])}), *bare[1:]])
    path = tmp_path / ("folder" if form == "datasets" else "rows.jsonl")
    export(sets, path, form)
    back = Dataset(row for row in rows(form, path) if isinstance(row, BonSet))
    assert back.fingerprint == sets.fingerprint


def test_a_conversation_is_exported_as_text(tmp_path):
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    content = load("carb-seed@1")[0].model_dump(mode="json") | {"prompt": turns}
    for form in ("pairs", "rewardbench2"):
        export([BonSet.model_validate(content)], tmp_path / f"{form}.jsonl", form)
        first = json.loads((tmp_path / f"{form}.jsonl").read_text(encoding="utf-8").splitlines()[0])
        assert first["prompt"] == "user: a\n\nassistant: b\n\nuser: c"
