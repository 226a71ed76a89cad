"""Public data sets in the layouts in which they are published; the rows are ours."""

from __future__ import annotations

import gzip
import json

import polars
import pytest

from carb_data import CarbError
from tal_rlvr.layouts import LAYOUTS, read_pairs
from tal_rlvr.mix import ordered
from tal_rlvr.pairs import Pair
from tal_rlvr.prompting import PromptConfig
from tal_rlvr.prompts import render_prompt


def user(text):
    return {"role": "user", "content": text}


PREFERENCE = [{"score": 1, "reasoning": "r", "feedback1": "f", "feedback2": "g"}]
HELPSTEER3 = [
    {"domain": d, "language": language, "context": context, "response1": "one", "response2": "two",
     "overall_preference": p, "individual_preference": PREFERENCE}
    for d, language, context, p in (
        ("general", "english", [user("q1")], -3),
        ("multilingual", "indonesian", [user("q2"), {"role": "assistant", "content": "a"}, user("q3")], 1),
        ("multilingual", "polish", [user("q4")], 2),
        ("code", "python", [user("q5")], 3),
        ("stem", "english", [user("q6")], 0),
    )
]  # fmt: skip
CARE = [
    {"question": question, "answer": "by a person", "response": response, "human_rating": rating, "source": "model",
     "cul_type": kind, "associated_culture": culture}
    for question, response, rating, kind, culture in (
        ("春节吃什么?", "饺子", 9, "Cultural commonsense", "Native (Chinese)"),
        ("春节吃什么?", "三明治", 2, "Cultural commonsense", "Native (Chinese)"),
        ("ماذا نأكل في العيد؟", "الكعك", 10, "Social norms", "Foreign"),
        ("ماذا نأكل في العيد؟", "لا شيء", 4, "Social norms", "Foreign"),
        ("お正月に何を食べますか", "おせち", 8, "Literacy", ""),
        ("お正月に何を食べますか", "パン", 3, "Literacy", ""),
        ("alone?", "x", 5, "Opinion", "Egypt"),
    )
]  # fmt: skip
M_REWARDBENCH = [
    {"id": 7, "language": language, "prompt": prompt, "chosen": "c", "rejected": "r", "chosen_model": "m",
     "rejected_model": "n", "subset": "alpacaeval-easy", "category": "Chat"}
    for language, prompt in (("zho_Hans", "问题"), ("zho_Hant", "問題"), ("deu_Latn", "Frage"), ("ell_Grek", "ερώτηση"))
]  # fmt: skip
METADATA = {"category": None, "correct": None, "index": 1.0, "method": None}
REWARDBENCH2 = [
    {"id": "0", "prompt": "q", "chosen": ["c"], "rejected": ["r1", "r2", "r3"], "num_correct": 1, "num_incorrect": 3,
     "total_completions": 4, "models": ["m"], "subset": "Focus", "additional_metadata": METADATA},
    {"id": "1", "prompt": "a colour?", "chosen": ["red", "blue"], "rejected": ["two", "up"], "num_correct": 2,
     "num_incorrect": 2, "total_completions": 4, "models": ["m"], "subset": "Ties", "additional_metadata": METADATA},
]  # fmt: skip


def save(rows, path):
    if path.suffix == ".parquet":
        polars.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    return str(path)


@pytest.fixture(params=["jsonl", "parquet"])
def read(request, tmp_path):
    return lambda form, rows, **options: read_pairs(form, save(rows, tmp_path / f"d.{request.param}"), **options)


def test_helpsteer3(read):
    pairs = read("helpsteer3", HELPSTEER3)
    assert [(p.chosen, p.language, p.culture, p.domain, p.difficulty) for p in pairs] == [
        ("one", "en", "general", "general", 0.0),
        ("two", "id", "general", "multilingual", 1.0),
        ("two", "pl", "general", "multilingual", 0.5),
        ("two", "en", "general", "code", 0.0),
    ]
    assert pairs[1].prompt == "user: q2\n\nassistant: a\n\nuser: q3"


def test_care(read):
    pairs = read("care", CARE)
    assert [(p.chosen, p.rejected, p.culture, p.language, p.domain) for p in pairs] == [
        ("饺子", "三明治", "chinese", "zh", "commonsense"),
        ("الكعك", "لا شيء", "arabic", "ar", "values"),
        ("おせち", "パン", "japanese", "ja", "linguistics"),
    ]
    egypt = [{**row, "associated_culture": "Egypt"} for row in CARE[2:4]]
    assert read("care", egypt)[0].culture.startswith("arabic")
    earlier = [{"question": "q", "response": r, "rating": str(n), "culture_type": "Opinion",
                "associated_culture": "Native (Arab)", "source": "LLM"} for n, r in enumerate("xy")]  # fmt: skip
    assert [(p.chosen, p.culture) for p in read("care", earlier)] == [("y", "arabic")]


def test_m_rewardbench_keeps_the_languages_of_an_item_together(read):
    pairs = read("m-rewardbench", M_REWARDBENCH)
    assert [p.language for p in pairs] == ["zh", "zh-Hant", "de", "el"]
    assert {p.source_item for p in pairs} == {"m-rewardbench:7"}
    assert len({p.id for p in pairs}) == 4
    assert {(p.culture, p.domain) for p in pairs} == {("general", "Chat")}


def test_rewardbench2_pairs_every_right_response_with_every_wrong_one(read):
    pairs = read("rewardbench2", REWARDBENCH2)
    assert [(p.chosen, p.rejected) for p in pairs] == [
        *(("c", r) for r in ("r1", "r2", "r3")),
        *((c, r) for c in ("red", "blue") for r in ("two", "up")),
    ]
    assert len({p.source_item for p in pairs}) == 2
    assert len({p.id for p in pairs}) == 7


def test_a_folder_of_shards_is_read_whole(tmp_path):
    (tmp_path / "data").mkdir()
    for n, rows in enumerate((HELPSTEER3[:2], HELPSTEER3[2:])):
        save(rows, tmp_path / "data" / f"train-{n:05}.parquet")
    assert len(read_pairs("helpsteer3", str(tmp_path))) == 4


@pytest.mark.parametrize(
    ("form", "rows", "message"),
    [
        ("care", [{"question": "q", "response": "r"}], r"row 1 has no 'human_rating' or 'rating'; its columns are"),
        ("care", [{**CARE[0], "human_rating": "good"}], r"row 1: 'good' in 'human_rating' is not a number"),
        ("rewardbench2", [{"prompt": "q", "chosen": ["c"]}], r"row 1 has no 'rejected'.*reward-bench-2"),
        ("preference", [{"prompt": [1, 2], "chosen": "c", "rejected": "r"}], r"neither a text nor messages"),
        ("helpsteer3", HELPSTEER3[4:], "holds no pair with a preference"),
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
        ({"chosen": ""}, "'chosen' is empty"),
        ({"rejected": [{"role": "assistant", "content": ""}]}, "'rejected' is empty"),
        ({"rejected": ["r", "c"]}, "'chosen' and 'rejected' are the same"),
    ],
)
def test_a_pair_that_teaches_nothing_is_named(tmp_path, row, message):
    good = {"prompt": "q", "chosen": "c", "rejected": "r"}
    path = save([good, {**good, **row}], tmp_path / "d.jsonl")
    with pytest.raises(CarbError, match=f"row 2: {message}"):
        read_pairs("preference", path)


def test_a_line_that_is_no_json_is_named(tmp_path):
    """It was always line 1 of itself."""
    path = tmp_path / "d.jsonl"
    good = json.dumps({"prompt": "q", "chosen": "c", "rejected": "r"})
    for bad in ("oops", good[:-1]):
        path.write_text(f"{good}\n\n{good}\n{bad}\n")
        with pytest.raises(CarbError, match=r"d\.jsonl:4 is not valid JSON: [^:]*: column \d+ "):
            read_pairs("preference", str(path))


@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "d.jsonl.gz"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, name):
    row = {"prompt": "q", "chosen": "c", "rejected": "r"}
    content = json.dumps([row] if name == "d.json" else row).encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert len(read_pairs("preference", str(tmp_path / name))) == 1


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(CarbError, match="not a Parquet file"):
        read_pairs("care", str(tmp_path / "x.parquet"))
    (tmp_path / "x.jsonl").write_text("[1]")
    with pytest.raises(CarbError, match="must hold objects"):
        read_pairs("care", str(tmp_path / "x.jsonl"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CarbError, match=r"holds no \.jsonl"):
        read_pairs("care", str(tmp_path / "empty"))


class Plain:
    chat_template = None
    all_special_tokens = ()


@pytest.mark.parametrize("style", ["full", "compact"])
@pytest.mark.parametrize("direct", [False, True])
def test_every_language_and_no_culture_has_a_prompt(style, direct):
    pytest.importorskip("trl", reason="needs tal-rlvr[train]")
    from tal_rlvr.trainer import training_rows

    pairs = [Pair(id="p", source_item="p", prompt="q", chosen="c", rejected="r", culture=culture, language=language)
             for culture in ("general", "thai") for language in ("en", "zh", "id", "nl")]  # fmt: skip
    rows = training_rows(
        ordered(pairs, shuffle=False), Plain(), PromptConfig(language="item", style=style), direct=direct
    )
    texts = [row[name] for row in rows for name in ("prompt", "bare_prompt")]
    assert not any("general" in text for text in texts)
    assert all(("Thai" in text) == (n >= len(texts) // 2) for n, text in enumerate(texts))


def test_a_general_pair_asks_for_no_local(tmp_path):
    pair = Pair(id="p", source_item="p", prompt="q", chosen="c", rejected="r", culture="general", language="zh")
    (message,) = render_prompt(pair, ("c", "r"), "general", "item")
    assert "local" not in message["content"]
    assert "- name | why it matters here | weight N | meets X" in message["content"]
    (tmp_path / "general-think-zh.jinja").write_text("{{ prompt }} 好")
    (own,) = render_prompt(pair, ("c", "r"), "general", "item", folder=tmp_path)
    assert own["content"] == "> q 好"


def test_every_layout_says_where_it_is_published():
    assert [name for name, layout in LAYOUTS.items() if not layout.url] == ["preference"]
