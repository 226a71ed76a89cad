from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from carb_data import BonSet, CarbError, Dataset
from tal_rlvr import MixSource, TrainingMix, check_contamination, load_config, presets
from tal_rlvr.contamination import drop_contaminated, report_contamination
from tal_rlvr.layouts import read_pairs
from tal_rlvr.mix import Parts, ordered
from tal_rlvr.pairs import Pair, both_orders, off_topic_pairs, other_language_pairs, pairs_from_set


def bon(number, culture="thai", language="en", topic=None, **changes):
    return BonSet.model_validate(
        {
            "id": f"{culture}-{language}-{number}",
            "culture": culture,
            "domain": "commonsense",
            "topic": topic or f"topic {number % 3}",
            "language": language,
            "prompt": f"{'abcdefghijklmnop'[number % 16] * 5} {number * 7919}?",
            "responses": [
                {"id": r, "text": f"{r} {number} {language}", "role": role, "language": language}
                for r, role in (("w", "chosen"), ("x", "rejected"), ("y", "rejected"))
            ],
            "provenance": {"source": "s", "source_id": str(number), "license": "CC0-1.0", "method": "authored"},
            **changes,
        }
    )


def test_a_set_gives_a_pair_for_each_wrong_response_in_both_orders():
    pairs = pairs_from_set(bon(1))
    assert [(p.chosen, p.rejected) for p in pairs] == [("w 1 en", "x 1 en"), ("w 1 en", "y 1 en")]
    first, second = both_orders(pairs[0])
    assert (first.first, first.second, first.label) == ("w 1 en", "x 1 en", "A")
    assert (second.first, second.second, second.label) == ("x 1 en", "w 1 en", "B")


def test_training_rows_are_balanced_over_the_orders():
    rows = ordered([pair for n in range(20) for pair in pairs_from_set(bon(n))], seed=1)
    assert Counter(row.label for row in rows) == {"A": 40, "B": 40}
    assert [row.label for row in rows[:10]] != [
        row.label for row in ordered([r.pair for r in rows], shuffle=False)[:10]
    ]


def test_learnable_tasks_are_made_from_the_same_sets():
    items = [bon(n) for n in range(6)] + [bon(n, language="th") for n in range(6)]
    topics = {f"w {n} en": n % 3 for n in range(6)}
    for pair in off_topic_pairs(items):
        if pair.language == "en":
            assert topics[pair.chosen] != topics[pair.rejected]
    languages = other_language_pairs(items)
    assert {(p.language, p.rejected.split()[-1]) for p in languages} == {("en", "th"), ("th", "en")}
    assert other_language_pairs(items) == languages


HELPSTEER = [
    {"domain": "stem", "language": "chinese", "context": [{"role": "user", "content": "q"}]}
    | {"response1": "a", "response2": "b", "overall_preference": preference}
    for preference in (-3, 0, 1)
]
CARE = [
    {"question": "q", "response": "good", "rating": 9, "culture": "Chinese", "language": "zh"},
    {"question": "q", "response": "bad", "rating": 2},
    {"question": "q", "answer": "middling", "rating": 6},
    {"question": "lonely", "response": "x", "rating": 5},
]
PREFERENCE = [
    {"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "c"}], "rejected": "r"}
]


@pytest.mark.parametrize(
    ("form", "rows", "expected"),
    [
        ("helpsteer3", HELPSTEER, [("q", "a", "b", "zh", 0.0), ("q", "b", "a", "zh", 1.0)]),
        ("care", CARE, [("q", "good", "bad", "zh", 0.0), ("q", "good", "middling", "zh", pytest.approx(4 / 7))]),
        ("preference", PREFERENCE, [("q", "c", "r", "en", 0.5)]),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "jsonl", "jsonl.gz"])
def test_published_forms(tmp_path, form, rows, expected, suffix):
    path = tmp_path / f"data.{suffix}"
    content = (json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows))).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    pairs = read_pairs(form, str(path))
    assert [(p.prompt, p.chosen, p.rejected, p.language, p.difficulty) for p in pairs] == expected


@pytest.mark.parametrize(
    ("content", "reason"), [("{", "valid JSON"), ('{"a": 1}\n', "form 'preference'"), ("[]", "no pair")]
)
def test_unreadable_data_is_named(tmp_path, content, reason):
    path = tmp_path / ("x.jsonl" if "a" in content else "x.json")
    path.write_text(content)
    with pytest.raises(CarbError, match=reason):
        read_pairs("preference", str(path))
    with pytest.raises(CarbError, match="Cannot read"):
        read_pairs("preference", str(tmp_path / "absent.jsonl"))


@pytest.fixture
def files(tmp_path):
    Dataset([bon(n, c) for n in range(40) for c in ("thai", "korean")]).save(tmp_path / "big.jsonl")
    Dataset([bon(n, "german") for n in range(100, 120)]).save(tmp_path / "small.jsonl")
    return tmp_path


def mix(files, **options):
    sources = (
        MixSource(form="carb", path=str(files / "big.jsonl"), weight=3),
        MixSource(form="carb", path=str(files / "small.jsonl"), weight=1),
    )
    return TrainingMix(sources=sources, **options)


def test_no_source_item_is_on_both_sides(files):
    parts = mix(files, held_out=0.3).parts()
    sides = [{pair.source_item for pair in part} for part in parts]
    assert all(sides)
    assert not sides[0] & sides[1]
    assert mix(files, held_out=0.3).parts() == parts
    assert mix(files, held_out=0.3, seed=1).parts() != parts


def test_every_beginning_keeps_to_the_weights(files):
    train = mix(files, limit=80).parts().train
    assert len(train) == 80
    for end in (20, 40, 80):
        assert sum(pair.culture == "german" for pair in train[:end]) == pytest.approx(end / 4, abs=1)


def test_balance_curriculum_and_limits(files):
    cultures = Counter(p.culture for p in mix(files, balance_cultures=True, per_item=1).parts().train)
    assert abs(cultures["thai"] - cultures["korean"]) <= 1
    pairs = [Pair(id=str(n), source_item=str(n), prompt=str(n), chosen="c", rejected="r", culture="x", language="en",
                  difficulty=d) for n, d in enumerate((0.9, 0.1, 0.5, 0.3))]  # fmt: skip
    rows = [{**p.model_dump(exclude={"difficulty", "domain"}), "prompt": p.prompt} for p in pairs]
    (files / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert len(mix(files, held_out_limit=3).parts().held_out) == 3
    helpsteer = [{**HELPSTEER[0], "overall_preference": p, "context": f"q{p}"} for p in (1, 3, 2, -1)]
    (files / "h.json").write_text(json.dumps(helpsteer))
    source = MixSource(form="helpsteer3", path=str(files / "h.json"))
    ordered_mix = TrainingMix(sources=(source,), held_out=0, curriculum="easy-first").parts().train
    assert [pair.difficulty for pair in ordered_mix] == [0.0, 0.5, 1.0, 1.0]


def lone(files, name, count, culture="x", **rest):
    rows = [{"id": f"{name}{n}", "source_item": f"{name}{n}", "prompt": f"{name} {n}", "chosen": "c", "rejected": "r",
             "culture": culture} for n in range(count)]  # fmt: skip
    with (files / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return MixSource(form="preference", path=str(files / f"{name}.jsonl"), **rest)


@pytest.mark.parametrize(
    ("options", "drawn", "left_out"),
    [
        ({}, (3000, 60), 0),
        ({"repeats": 4}, (3000, 240), 0),
        ({"repeats": 100}, (3000, 3000), 0),
        ({"when_exhausted": "stop"}, (60, 60), 2940),
        ({"when_exhausted": "stop", "repeats": 4}, (240, 240), 2760),
        ({"limit": 100}, (50, 50), 2960),
    ],
)
def test_the_mix_accounts_for_every_pair(tmp_path, options, drawn, left_out):
    sources = (lone(tmp_path, "many", 3000), lone(tmp_path, "few", 60))
    parts, account = TrainingMix(sources=sources, held_out=0, **options).mixed()
    many, few = account.sources
    assert (many.drawn, few.drawn) == drawn
    assert len(parts.train) == account.drawn == sum(drawn)
    assert many.left_out + few.left_out == left_out
    assert many.used + many.left_out == many.read == 3000
    assert bool(many.left_out) == any("left out by the mix" in note for note in account.notes())
    assert (abs(many.share - 0.5) > 0.05) == any("asks for 50%" in note for note in account.notes())


def test_balanced_cultures_lose_nothing_unless_asked_to(tmp_path):
    lone(tmp_path, "g", 1998, "german")
    source = lone(tmp_path, "t", 2, "thai")
    (tmp_path / "all.jsonl").write_text((tmp_path / "g.jsonl").read_text() + (tmp_path / "t.jsonl").read_text())
    source = source.model_copy(update={"path": str(tmp_path / "all.jsonl")})
    for options, expected in (
        ({}, {"german": (1998, 1998), "thai": (2, 2)}),
        ({"repeats": 10}, {"german": (1998, 1998), "thai": (2, 20)}),
        ({"when_exhausted": "stop"}, {"german": (1998, 2), "thai": (2, 2)}),
    ):
        parts, account = TrainingMix(sources=(source,), held_out=0, balance_cultures=True, **options).mixed()
        assert account.cultures == expected
        assert {pair.culture for pair in parts.train[:2]} == {"german", "thai"}


def test_the_control_s_labels_are_drawn_by_lot(files):
    plain, lot = mix(files).parts(), mix(files, shuffle_labels=True).parts()
    assert plain.held_out == lot.held_out
    swapped = sum(a.chosen == b.rejected for a, b in zip(plain.train, lot.train, strict=True))
    assert 0.3 < swapped / len(plain.train) < 0.7


def test_contamination_is_found_named_and_dropped(files):
    pytest.importorskip("numpy", reason="needs carb-data[checks]")
    parts = mix(files).parts()
    assert report_contamination(parts).found == ()
    leaked = [*parts.train, parts.held_out[0].model_copy(update={"id": "leak", "source_item": "other:1"})]
    report = report_contamination(Parts(leaked, parts.held_out))
    assert [found.train for found in report.found] == ["leak"]
    assert drop_contaminated(leaked, report) == parts.train
    outside = report_contamination(parts, [str(files / "small.jsonl")])
    german = {pair.id for pair in parts.train if pair.culture == "german"}
    assert {found.train for found in outside.found} == german
    assert not check_contamination(["abc"], ["something else entirely"]).overlaps


def test_contamination_is_looked_for_once_however_many_pairs_and_sets_there_are(files, monkeypatch):
    pytest.importorskip("numpy", reason="needs carb-data[checks]")
    parts, sizes = mix(files).parts(), []

    def check(train, test):
        sizes.append((len(train), len(test)))
        return check_contamination(train, test)

    monkeypatch.setattr("tal_rlvr.contamination.check_contamination", check)
    report_contamination(parts, [str(files / "small.jsonl"), str(files / "big.jsonl")])
    assert sizes == [(len(parts.train), len(parts.held_out) + 20 + 80)]


def test_presets_are_complete_but_for_what_only_the_user_knows(tmp_path):
    assert set(presets()) >= {"demo-cpu", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b"}
    source = {"form": "carb", "path": "x"}
    for name in presets():
        config = load_config(name, {"model": "m", "out": str(tmp_path), "mix": {"sources": [source]}})
        assert config.grpo["num_generations"] > 1
        assert config.grpo["save_total_limit"] in (1, 2)  # a checkpoint of 7B with its optimizer takes 90 GB


def test_a_file_builds_on_a_preset_and_every_mistake_is_named(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'preset = "demo-cpu"\nmodel = "m"\nout = "o"\n[mix]\nsources = [{form = "carb", path = "x"}]\n'
        "[grpo]\nbeta = 0.5\n"
    )
    config = load_config(path)
    assert config.grpo["beta"] == 0.5
    assert config.grpo["num_generations"] == load_config("demo-cpu", config.model_dump()).grpo["num_generations"]
    with pytest.raises(CarbError, match=r"seed: .*warmup\.flipped"):
        load_config(path, {"seed": "x", "warmup": {"flipped": 2}})
    with pytest.raises(CarbError, match="demo-cpu"):
        load_config("no-such-preset")
    path.write_text("a = ")
    with pytest.raises(CarbError, match="is not TOML"):
        load_config(path)
