from __future__ import annotations

import json

import polars
import pytest

from carb_data import BonSet, CarbError, Dataset, load
from carb_data.models import cited
from tal_rlvr import MixSource, TrainingMix, check_contamination, load_config, presets
from tal_rlvr.layouts import read_pairs
from tal_rlvr.mix import Parts
from tal_rlvr.mix_check import report_contamination
from tal_rlvr.preferences import both_orders, pairs_from_set
from tal_rlvr.train_config import TrainConfig
from tal_rlvr.trl_rewards import RewardConfig

PAPER_REWARDS = RewardConfig(base="paper")


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
            "provenance": {
                "source": "s",
                "source_id": str(number),
                "license": "CC0-1.0",
                "method": "authored",
            },
            **changes,
        }
    )


def test_a_set_gives_a_pair_for_each_wrong_response_in_both_orders():
    pairs = pairs_from_set(bon(1))
    assert [(p.chosen, p.rejected) for p in pairs] == [("w 1 en", "x 1 en"), ("w 1 en", "y 1 en")]
    first, second = both_orders(pairs[0])
    assert (first.first, first.second, first.label) == ("w 1 en", "x 1 en", "A")
    assert (second.first, second.second, second.label) == ("x 1 en", "w 1 en", "B")


def user(text):
    return {"role": "user", "content": text}


TWO = {"response1": "one", "response2": "two"}
HELPSTEER3 = [
    {"domain": d, "language": language, "context": context, "overall_preference": p, **TWO}
    for d, language, context, p in (
        ("general", "english", [user("q1")], -3),
        (
            "multilingual",
            "indonesian",
            [user("q2"), {"role": "assistant", "content": "a"}, user("q3")],
            1,
        ),
        ("multilingual", "polish", [user("q4")], 2),
        ("code", "python", [user("q5")], 3),
        ("stem", "english", [user("q6")], 0),
    )
]
COLUMNS = ("question", "response", "human_rating", "cul_type", "associated_culture")
CARE = [
    {"answer": "by a person", "source": "model", **dict(zip(COLUMNS, row, strict=True))}
    for row in (
        ("春节吃什么?", "饺子", 9, "Cultural commonsense", "Native (Chinese)"),
        ("春节吃什么?", "三明治", 2, "Cultural commonsense", "Native (Chinese)"),
        ("ماذا نأكل في العيد؟", "الكعك", 10, "Social norms", "Foreign"),
        ("ماذا نأكل في العيد؟", "لا شيء", 4, "Social norms", "Foreign"),
        ("お正月に何を食べますか", "おせち", 8, "Literacy", ""),
        ("お正月に何を食べますか", "パン", 3, "Literacy", ""),
        ("alone?", "x", 5, "Opinion", "Egypt"),
    )
]


def save(rows, path):
    if path.suffix == ".parquet":
        polars.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    return str(path)


@pytest.fixture(params=["jsonl", "parquet"])
def read(request, tmp_path):
    return lambda form, rows, **options: read_pairs(
        form, save(rows, tmp_path / f"d.{request.param}"), **options
    )


def test_well_known_tables_of_preferences_are_read_as_everywhere(read):
    """A judge was asked as a local of an unspecified culture."""
    pairs = read("carb", HELPSTEER3)
    assert [(p.chosen, p.language, p.culture) for p in pairs[:3]] == [
        ("one", "en", "general"),
        ("two", "id", "general"),
        ("two", "pl", "general"),
    ]
    assert pairs[1].prompt == "user: q2\n\nassistant: a\n\nuser: q3"
    assert len(pairs) == 4
    given = read("carb", HELPSTEER3, culture="thai", language="th")
    assert {(p.culture, p.language) for p in given} >= {("thai", "en"), ("thai", "pl")}
    bad = {**HELPSTEER3[0], "response2": "one"}
    with pytest.raises(CarbError, match="two answers are the same"):
        read("carb", [*HELPSTEER3, bad])
    assert len(read("carb", [*HELPSTEER3, bad], skip_bad=1)) == 4


@pytest.mark.parametrize(
    ("prompt", "language"),
    [
        ("Was bringt man mit, wenn man bei jemandem zum Essen eingeladen ist?", "de"),
        ("¿Qué se lleva cuando alguien te invita a cenar en su casa?", "es"),
        ("おみやげは何がいいですか。", "ja"),
        ("لماذا يحمل الضيف هدية؟", "ar"),
        ("print(2 + 2)", "en"),
    ],
)
def test_a_pair_without_a_language_has_that_of_its_question(read, prompt, language):
    """Everything in Latin letters was English."""
    pytest.importorskip("lingua", reason="needs tal-rlvr[train]")
    row = {"prompt": prompt, "chosen": "1", "rejected": "2"}
    assert [pair.language for pair in read("preference", [row])] == [language]


def test_a_question_that_tells_no_language_has_that_of_most(read):
    """``42?`` among Arabic questions was English, and its culture, too."""
    pytest.importorskip("lingua", reason="needs tal-rlvr[train]")
    prompts = ("لماذا يحمل الضيف هدية؟", "42?", "ماذا يقول الناس في العيد؟")
    rows = [{"prompt": prompt, "chosen": "1", "rejected": "2"} for prompt in prompts]
    assert [pair.language for pair in read("preference", rows)] == ["ar"] * 3


def test_care(read):
    pytest.importorskip("lingua", reason="needs tal-rlvr[train]")
    pairs = read("care", CARE)
    assert [(p.chosen, p.rejected, p.culture, p.language) for p in pairs] == [
        ("饺子", "三明治", "chinese", "zh"),
        ("الكعك", "لا شيء", "arabic", "ar"),
        ("おせち", "パン", "japanese", "ja"),
    ]
    egypt = [{**row, "associated_culture": "Egypt"} for row in CARE[2:4]]
    assert read("care", egypt)[0].culture.startswith("arabic")
    about = {"culture_type": "Opinion", "associated_culture": "Native (Arab)", "source": "LLM"}
    earlier = [
        {"question": "q", "response": r, "rating": str(n), **about} for n, r in enumerate("xy")
    ]
    assert [(p.chosen, p.culture) for p in read("care", earlier)] == [("y", "arabic")]


@pytest.mark.parametrize(
    ("form", "rows", "message"),
    [
        (
            "care",
            [{"question": "q", "response": "r"}],
            r"row 1 has no 'human_rating' or 'rating'; its columns are",
        ),
        (
            "care",
            [{**CARE[0], "human_rating": "good"}],
            r"row 1: 'good' in 'human_rating' is not a number",
        ),
        ("preference", [{"prompt": "q", "chosen": "c"}], r"row 1 has no 'rejected'"),
        (
            "preference",
            [{"prompt": [1, 2], "chosen": "c", "rejected": "r"}],
            r"neither a text nor messages",
        ),
        ("care", CARE[6:], "holds no pair with a preference"),
    ],
)
def test_a_row_out_of_layout_is_named(tmp_path, form, rows, message):
    with pytest.raises(CarbError, match=message):
        read_pairs(form, save(rows, tmp_path / "d.jsonl"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "same", "rejected": " same\n"}, "'chosen' and 'rejected' are the same"),
        ({"prompt": " "}, "'prompt' is empty"),
        ({"chosen": ""}, "has no 'chosen'"),
        ({"chosen": "\n"}, "'chosen' is empty"),
        ({"rejected": [{"role": "assistant", "content": ""}]}, "'rejected' is empty"),
    ],
)
def test_a_pair_that_teaches_nothing_is_named(tmp_path, row, message):
    good = {"prompt": "q", "chosen": "c", "rejected": "r"}
    path = save([good, {**good, **row}], tmp_path / "d.jsonl")
    with pytest.raises(CarbError, match=f"row 2:? {message}"):
        read_pairs("preference", path)


def test_a_line_that_is_no_json_is_named(tmp_path):
    """It was always line 1 of itself."""
    path = tmp_path / "d.jsonl"
    good = json.dumps({"prompt": "q", "chosen": "c", "rejected": "r"})
    for bad in ("oops", good[:-1]):
        path.write_text(f"{good}\n\n{good}\n{bad}\n")
        with pytest.raises(CarbError, match=r"d\.jsonl:4: Invalid JSON: .* column \d+"):
            read_pairs("preference", str(path))


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(CarbError, match="not a readable Parquet file"):
        read_pairs("care", str(tmp_path / "x.parquet"))
    (tmp_path / "x.jsonl").write_text("[1]")
    with pytest.raises(CarbError, match="not a JSON object"):
        read_pairs("care", str(tmp_path / "x.jsonl"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CarbError, match=r"empty holds no table"):
        read_pairs("care", str(tmp_path / "empty"))


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
    parts = mix(files, held_out=0.3).mixed()[0]
    sides = [{pair.source_item for pair in part} for part in parts]
    assert all(sides[:2])
    assert not sides[0] & sides[1]
    three = mix(files, held_out=0.3, dev=0.3).mixed()[0]
    assert three.held_out == parts.held_out
    assert not {pair.source_item for pair in three.dev} & {
        p.source_item for p in (*three.train, *three.held_out)
    }
    assert three.dev
    assert mix(files, held_out=0.3).mixed()[0] == parts
    assert mix(files, held_out=0.3, seed=1).mixed()[0] != parts


def test_two_pairs_of_one_name_are_refused(tmp_path):
    """They were taken for one pair: a run ended after its warm-up, and a pair that repeats an item
    was left out together with another one."""
    pytest.importorskip("lingua", reason="needs tal-rlvr[train]")
    rows = [
        {"prompt": f"{n} {'abcdefgh'[n] * 9}", "chosen": "x", "rejected": "y"} for n in range(8)
    ]
    paths = [save(rows[half:][:4], tmp_path / f"{half}.jsonl") for half in (0, 4)]
    sources = [MixSource(form="preference", path=path) for path in paths]
    parts, _ = TrainingMix(sources=sources, held_out=0.5).mixed()
    assert len({pair.id for part in parts for pair in part}) == 8
    for changed in (rows[:4], [row | {"id": "x"} for row in rows[4:6]]):
        save(changed, tmp_path / "4.jsonl")
        with pytest.raises(CarbError, match=r"\[mix\] sources.*2 pairs.*id"):
            TrainingMix(sources=sources).mixed()


def test_held_out_sets_are_those_of_the_pairs_whatever_ids_hold(tmp_path):
    """An answer's id may have a slash, as paths do; its set was left out of the held-out file."""
    sets = [bon(n, "thai") for n in range(20)]
    renamed = [
        item.changed(responses=tuple(one.changed(id=f"a/{one.id}") for one in item.responses))
        for item in sets
    ]
    Dataset(renamed).save(tmp_path / "sets.jsonl")
    source = MixSource(form="carb", path=str(tmp_path / "sets.jsonl"))
    chosen = TrainingMix(sources=(source,), held_out=0.3)
    held_out = chosen.mixed()[0].held_out
    ids = {pair.id for pair in held_out}
    of_pairs = {item.id for item in renamed for pair in pairs_from_set(item) if pair.id in ids}
    assert {item.id for item in chosen.held_out_sets(held_out)} == of_pairs != set()


def test_every_beginning_keeps_to_the_weights(files):
    train = mix(files).mixed()[0].train
    for end in (20, 40, 80):
        assert sum(pair.culture == "german" for pair in train[:end]) == pytest.approx(
            end / 4, abs=1
        )


def lone(files, name, count, culture="x", **rest):
    same = {"chosen": "c", "rejected": "r", "culture": culture}
    ids = [f"{name}{n}" for n in range(count)]
    rows = [
        {"id": one, "source_item": one, "prompt": f"{name} {n}", **same}
        for n, one in enumerate(ids)
    ]
    with (files / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return MixSource(form="preference", path=str(files / f"{name}.jsonl"), **rest)


@pytest.mark.parametrize(
    ("options", "drawn"),
    [({}, (3000, 60)), ({"repeats": 4}, (3000, 240)), ({"repeats": 100}, (3000, 3000))],
)
def test_the_mix_accounts_for_every_pair(tmp_path, options, drawn):
    pytest.importorskip("lingua", reason="needs tal-rlvr[train]")
    sources = (lone(tmp_path, "many", 3000), lone(tmp_path, "few", 60))
    parts, account = TrainingMix(sources=sources, held_out=0, **options).mixed()
    many, few = account.sources
    assert (many.drawn, few.drawn) == drawn
    assert len(parts.train) == sum(drawn) == sum(account.cultures.values())
    assert many.read == 3000
    assert {pair.id for pair in parts.train} == {f"many{n}" for n in range(3000)} | {
        f"few{n}" for n in range(60)
    }
    assert (abs(many.share - 0.5) > 0.05) == any("asks for 50%" in note for note in account.notes())


def test_the_mix_accounts_for_the_draws_of_each_culture(tmp_path):
    rows = [
        {"prompt": f"{name} {n}", "chosen": "x", "rejected": "y", "culture": name, "language": "en"}
        for name, count in (("thai", 30), ("german", 5))
        for n in range(count)
    ]
    sources = [MixSource(form="preference", path=save(rows, tmp_path / "both.jsonl"))]
    for options, german in (({}, 5), ({"balance_cultures": True, "repeats": 6}, 30)):
        parts, account = TrainingMix(sources=sources, held_out=0, **options).mixed()
        assert account.cultures == {"thai": 30, "german": german}
    assert {pair.culture for pair in parts.train[:2]} == {"thai", "german"}  # in turns


def test_contamination_is_found_named_and_dropped(files):
    pytest.importorskip("numpy", reason="needs carb-data[checks]")
    parts = mix(files).mixed()[0]
    assert report_contamination(parts).repeated == ()
    leaked = [
        *parts.train,
        parts.held_out[0].model_copy(update={"id": "leak", "source_item": "other:1"}),
    ]
    report = report_contamination(Parts(leaked, parts.held_out, []))
    assert [pair.train for pair in report.repeated] == ["leak"]
    outside = report_contamination(parts, [str(files / "small.jsonl")])
    german = {pair.id for pair in parts.train if pair.culture == "german"}
    assert {pair.train for pair in outside.repeated} == german
    assert not check_contamination(["abc"], ["something else entirely"]).overlaps


def test_presets_are_complete_but_for_what_only_the_user_knows(tmp_path):
    """What carries the paper's models has the paper's rewards; a single GPU has presets of its
    own."""
    source = {"form": "carb", "path": "x"}
    configs = {
        name: load_config(
            name,
            {
                "out": str(tmp_path),
                "mix": {"sources": [source]},
                **({} if "qwen" in name else {"model": "m"}),
            },
        )
        for name in presets()
    }
    paper = {name for name, config in configs.items() if config.rewards == PAPER_REWARDS}
    assert paper == {"qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b"}
    assert set(configs) >= {"demo-cpu", "qwen2.5-1.5b", "qwen2.5-3b"}
    for config in configs.values():
        assert config.grpo["num_generations"] > 1
        assert config.grpo["save_total_limit"] in (
            1,
            2,
        )  # a checkpoint of 7B with its optimizer takes 90 GB
        assert (config.max_prompt_tokens or 0) <= 4096
        if config.lora is not None:
            assert config.grpo["learning_rate"] >= 1e-5  # ten times what all weights take


@pytest.mark.parametrize(
    ("rewards", "left_out"),
    [
        ("criteria_weight = 0.0", "criteria_weight"),
        ("correctness_weight = 0.0", "correctness_weight"),
        ("floor = 0.2", "floor"),
    ],
)
def test_an_ablation_of_a_paper_preset_changes_one_setting(tmp_path, rewards, left_out):
    path = tmp_path / "ablation.toml"
    path.write_text(
        'preset = "qwen2.5-7b"\nout = "o"\n[mix]\nsources = [{form = "carb", path = "x"}]\n'
        f"[rewards]\n{rewards}\n"
    )
    changed, paper = load_config(path).rewards.model_dump(), PAPER_REWARDS.model_dump()
    assert {name for name in paper if changed[name] != paper[name]} == {left_out}


def test_rewards_begin_with_the_base_that_is_named(tmp_path):
    values = {"model": "m", "out": "o", "mix": {"sources": [{"form": "carb", "path": "x"}]}}
    path = tmp_path / "c.toml"
    path.write_text('preset = "qwen2.5-7b"\n[rewards]\nbase = "ours"\n')
    assert load_config(path, values).rewards == RewardConfig(criteria_weight=1.0)
    path.write_text('preset = "demo-cpu"\n[rewards]\nbase = "paper"\n')
    config = load_config(path, values)
    assert config.rewards == PAPER_REWARDS
    assert TrainConfig.model_validate_json(config.model_dump_json()) == config


def test_a_file_builds_on_a_preset_and_every_mistake_is_named(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'preset = "demo-cpu"\nmodel = "m"\nout = "o"\n'
        '[mix]\nsources = [{form = "carb", path = "x"}]\n[grpo]\nbeta = 0.5\n'
    )
    config = load_config(path)
    assert config.grpo["beta"] == 0.5
    assert (
        config.grpo["num_generations"]
        == load_config("demo-cpu", config.model_dump()).grpo["num_generations"]
    )
    pinned = load_config(
        path, {"revision": "r1"}
    )  # of the model and its KL reference, and of nothing that is trained
    assert pinned.loading("m") == {"dtype": "float32", "revision": "r1"}
    assert pinned.backend_options("m") == {"backend": "hf", "revision": "r1"}
    assert "revision" not in {**pinned.loading("o/warmup"), **pinned.backend_options("o/warmup")}
    with pytest.raises(CarbError, match=r"seed: .*warmup\.flipped"):
        load_config(path, {"seed": "x", "warmup": {"flipped": 2}})
    with pytest.raises(CarbError, match="demo-cpu"):
        load_config("no-such-preset")
    path.write_text("a = ")
    with pytest.raises(CarbError, match="is not TOML"):
        load_config(path)
    path.write_text(f'preset = "{path}"')
    with pytest.raises(CarbError, match="itself"):
        load_config(path)


def test_training_and_held_out_pairs_of_the_seed_share_no_fact():
    mix = TrainingMix(sources=[{"form": "carb", "path": "carb-seed"}], held_out=0.3)
    parts = mix.mixed()[0]
    facts = {item.id: set(cited(item.responses)) for item in load("carb-seed")}
    trained, held = (
        {fact for pair in pairs for fact in facts[pair.id.rpartition("/")[0]]}
        for pairs in (parts.train, parts.held_out)
    )
    assert trained
    assert held
    assert not trained & held
