"""The files that people have become sets, and each bad row is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carb_data import CarbError, DataError, Dataset, load, turn_marks
from carb_data.columns import columns_of, record_of
from carb_data.declaration import shapes
from carb_data.given import plain_reader, read_record
from carb_data.keys import System
from carb_data.table_sets import unsaid
from carb_data.turn_marks import refuse_turns
from carb_data.values import UnreadError
from small_sets import read_rows

SAID = {"culture": "thai", "domain": "values", "language": "en"}


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "prompt,chosen,rejected_1,rejected_2\nWhen?,now,then,never\n"),
        ("a.csv", "\ufeffPrompt;Chosen;Rejected 1;Rejected 2\nWhen?;now;then;never\n"),
        (
            "a.tsv",
            "question\tcorrect answer\twrong answer 1\twrong answer 2\nWhen?\tnow\tthen\tnever\n",
        ),
        ("a.csv", "question,A,B,C,answer\nWhen?,then,now,never,B\n"),
        ("a.csv", "Question,Option A,Option B,Option C,Answer\nWhen?,then,now,never,now\n"),
        ("a.csv", "question,option 1,option 2,option 3,label\nWhen?,then,never,now,3\n"),
        (
            "a.jsonl",
            json.dumps({"question": "When?", "choices": ["then", "now", "never"], "answer": "(b)"}),
        ),
        (
            "a.jsonl",
            json.dumps({"prompt": "When?", "chosen": "now", "rejected": ["then", "never"]}),
        ),
    ],
)
def test_shapes_are_known_by_their_columns(tmp_path, name, text):
    (item,) = read_rows(write(tmp_path / name, text), **SAID)
    assert (item.prompt, item.chosen.text, {r.text for r in item.rejected}) == (
        "When?",
        "now",
        {"then", "never"},
    )
    assert (item.culture, item.domain, item.language) == ("thai", "values", "en")


def test_columns_of_no_shape_are_named(tmp_path):
    path = write(tmp_path / "a.csv", "prompt,good,poor\nWhen?,now,never\n")
    with pytest.raises(
        CarbError,
        match=r"\(good, poor, prompt\) .*Nearest is .*missing: .*Rename them",
    ):
        read_rows(path, **SAID)


def test_every_bad_row_is_named_with_its_number(tmp_path):
    good = {
        "prompt": "p",
        "chosen": "a",
        "rejected": "b",
        "culture": "thai",
        "domain": "values",
        "language": "en",
    }
    bad = [(field, "") for field in ("prompt", "chosen", "rejected", "culture")]
    bad += [("rejected", "a"), ("domain", "law"), ("language", "Gibberish")]
    rows = [
        ",".join(row)
        for row in (good, good.values(), *((good | {name: cell}).values() for name, cell in bad))
    ]
    rows.insert(2, "")
    with pytest.raises(DataError) as caught:
        load(write(tmp_path / "a.csv", "\n".join(rows)))
    found = [(problem.line, problem.field) for problem in caught.value.problems]
    assert found == [(line, name) for line, (name, _) in enumerate(bad, 4)]


def test_an_excel_sheet_is_read(tmp_path):
    library = pytest.importorskip("openpyxl", reason="needs the extra 'excel'")
    book = library.Workbook()
    for row in (
        ["question", "A", "B", "answer", "culture", "domain", "language"],
        ["q", 1, 2, "A", "thai", "values", "en"],
    ):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    (item,) = load(tmp_path / "a.xlsx")
    assert (item.chosen.text, item.rejected[0].text) == ("1", "2")
    (tmp_path / "b.xlsx").write_bytes(b"no sheet")
    with pytest.raises(CarbError, match=r"b\.xlsx is not a readable Excel file"):
        load(tmp_path / "b.xlsx")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_file_without_rows_or_in_another_encoding_is_a_plain_error(tmp_path, name):
    with pytest.raises(CarbError, match="holds no rows"):
        read_rows(write(tmp_path / name, "\n"))
    (tmp_path / name).write_bytes(b"prompt,\xff\xfe\n")
    with pytest.raises(CarbError, match="UTF-8"):
        read_rows(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_table_without_culture_domain_and_language_loads(tmp_path, name):
    pytest.importorskip("lingua", reason="needs the extra 'checks'")
    row = {
        "prompt": "Was isst man am Abend in dieser Stadt?",
        "chosen": "Man isst Brot mit Käse.",
        "rejected": "Nichts.",
    }
    text = (
        json.dumps(row)
        if name == "a.jsonl"
        else "\n".join(map(",".join, [row.keys(), row.values()]))
    )
    path = write(tmp_path / name, text)
    (item,) = load(path)
    assert (item.culture, item.domain, item.language) == ("unspecified", "unspecified", "de")
    culture, domain, language = unsaid([item])
    assert "No culture in 1 sets" in culture
    assert "--culture" in culture
    assert "No domain in 1 sets" in domain
    assert "--domain" in domain
    assert "detected: de 1, out of ar, az, bn" in language
    assert "--language" in language
    (item,) = load(path, culture="thai", domain="values", language="English")
    assert (item.culture, item.domain, item.language) == ("thai", "values", "en")
    assert unsaid([item]) == []
    assert load(path, culture="Thailand")[0].culture == "thai"
    with pytest.raises(CarbError, match="commonsense, values, safety, linguistics"):
        load(path, domain="food")
    Dataset([item]).save(tmp_path / "sets.jsonl")
    with pytest.raises(CarbError, match=r"sets\.jsonl .* --culture"):
        load(tmp_path / "sets.jsonl", culture="thai")


def test_a_country_is_read_as_its_culture_and_what_can_mean_several_is_refused(tmp_path):
    named = {
        "Thailand": "thai",
        "South Korea": "korean-kr",
        "GERMANY": "german-de",
        "China": "chinese-cn",
    }
    named |= {
        "UK": "english-gb",
        "Turkey": "turkish",
        "AR": "spanish-ar",
        "Korean": "korean",
        "ja": "japanese",
    }
    rows = [f"q{n},a,b,{name}" for n, name in enumerate(named)]
    path = write(tmp_path / "a.csv", "\n".join(["prompt,chosen,rejected,Country", *rows]))
    assert [item.culture for item in load(path)] == [*named.values()]
    with pytest.raises(
        DataError, match=r"a\.csv:2: culture: .* Did you mean 'arabic' or 'spanish-ar'"
    ):
        load(write(path, "prompt,chosen,rejected,Country\nq,a,b,ar"))


def test_a_language_alone_names_no_country(tmp_path):
    """The culture file of a table in Swahili was forgotten, and its sets were read as Kenya's."""
    path = tmp_path / "a.csv"
    for name, near in (("swahili", "kenyan"), ("Bengali", "bangladeshi"), ("sw", "kenyan")):
        path.write_text(f"culture,language,prompt,chosen,rejected\n{name},en,q,a,b\n", "utf-8")
        with pytest.raises(DataError, match=rf"a\.csv:2: culture: .*'{near}'.*--culture-file"):
            load(path)
    path.write_text("culture,language,prompt,chosen,rejected\nThai,en,q,a,b\n", "utf-8")
    assert load(path)[0].culture == "thai"


_SHEET = "id,culture,domain,language,topic,prompt,chosen,rejected_1,rejected_2,rejected_3,source\n"
_ROW = "a-2,thai,values,en,t,Q two?,Yes.,No 1.,No 2.,No 3.,own\n"


@pytest.mark.parametrize("source", ["own", ""])
def test_a_comma_without_quotes_is_a_bad_row_and_shifts_nothing(tmp_path, source):
    text = f"{_SHEET}{_ROW}a-1,thai,values,en,t,Q one?,Yes, it is.,No 1.,No 2.,No 3.,{source}\n"
    with pytest.raises(
        DataError,
        match=(
            r"a\.csv:3: has 12 cells, the heading has 11; put a text with a comma in double "
            r"quotes"
        ),
    ):
        load(write(tmp_path / "a.csv", text))
    text = text.replace(",", ";")
    with pytest.raises(
        DataError, match=r"b\.csv:3: has 12 cells.* a text with a semicolon in double quotes"
    ):
        load(write(tmp_path / "b.csv", text))


@pytest.mark.parametrize("cell", ['"own', '"own" book'])
def test_a_lost_quote_swallows_no_rows(tmp_path, cell):
    second, third = _ROW.replace("a-2", "a-1").replace("own", cell), _ROW.replace("a-2", "a-3")
    text = f"{_SHEET}{_ROW}{second}{third}"
    with pytest.raises(DataError, match=r"a\.csv:3: .*close every double quote.*"):
        load(write(tmp_path / "a.csv", text))


def test_a_quote_behind_a_comma_and_a_space_is_no_part_of_the_text(tmp_path):
    text = 'prompt, chosen, rejected\n"Who, then?", "we, all", "they"\n'
    (item,) = load(write(tmp_path / "a.csv", text), language="en")
    assert (item.chosen.text, item.rejected[0].text) == ("we, all", "they")


@pytest.mark.parametrize(
    "names", ["prompt,chosen,rejected,rejected", "prompt,chosen,rejected 1,Rejected_1"]
)
def test_a_column_that_occurs_twice_is_refused(tmp_path, names):
    with pytest.raises(CarbError, match=r"a\.csv: two columns have the name '[Rr]ejected"):
        read_rows(write(tmp_path / "a.csv", f"{names}\nq,a,b,c\n"), **SAID)


def _choices(path, *rows, options=("w0", "w1", "w2", "w3")):
    lines = [
        json.dumps({"question": f"q{n}", "choices": options, "answer": key})
        for n, key in enumerate(rows)
    ]
    return write(path, "\n".join(lines))


@pytest.mark.parametrize(
    ("keys", "right"),
    [
        ([1, 0, "3"], ["w1", "w0", "w3"]),
        ([1, 4], ["w0", "w3"]),
        (["1", "b", "w3", "๔"], ["w0", "w1", "w3", "w3"]),
    ],
)
def test_a_number_counts_from_where_the_file_shows(tmp_path, keys, right):
    sets = read_rows(_choices(tmp_path / "a.jsonl", *keys), **SAID)
    assert [item.chosen.text for item in sets] == right
    assert [len(item.rejected) for item in sets] == [3] * len(sets)


def test_numbers_that_may_count_from_0_or_from_1_are_refused(tmp_path):
    path = _choices(tmp_path / "a.jsonl", 1, "2", "a")
    with pytest.raises(CarbError, match=r"count from 0 or from 1\. Write letters"):
        read_rows(path, **SAID)
    with pytest.raises(DataError, match=r"a\.jsonl:1: answer: '4' is none of the options"):
        read_rows(_choices(path, 4, 0), **SAID)


@pytest.mark.parametrize(("first", "keys"), [(1, (0, 1)), (0, (2, 1)), (1, (0, 1, 2))])
def test_numbers_that_name_an_option_in_some_rows_and_count_in_others_are_refused(
    tmp_path, first, keys
):
    """The key 1 took the option of that name, where the key 0 told that the keys count from 0."""
    options = {str(first): "tea", str(first + 1): "milk"}
    rows = [{"question": "q?", "options": options, "answer": key} for key in keys]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r":2: answer: '1' is the name of one option and the num"):
        read_rows(path, **SAID)
    rows = [{"question": "q?", "options": options, "answer": key} for key in options]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [item.chosen.text for item in read_rows(path, **SAID)] == ["tea", "milk"]


_NO_TEXT = "must be a text, a finite number or messages"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"rejected": []}, "rejected: every wrong answer is empty"),
        ({"rejected": ["no", ["never"]]}, f"rejected: {_NO_TEXT}"),
        ({"chosen": {"text": "Yes"}}, f"chosen: {_NO_TEXT}"),
        ({"chosen": []}, "chosen: is empty"),
        ({"chosen": float("nan")}, f"chosen: {_NO_TEXT}"),
        ({"id": {"n": 1}}, f"id: {_NO_TEXT}"),
        ({"culture": ["thai"]}, f"culture: {_NO_TEXT}"),
        ({"prompt": "Q\ud800"}, "Invalid JSON: "),
    ],
)
def test_what_is_no_text_is_a_bad_row(tmp_path, fields, problem):
    good = {"prompt": "q", "chosen": "a", "rejected": "b", **SAID}
    text = f"{json.dumps(good)}\n{json.dumps(good | {'prompt': 'q2'} | fields)}\n"
    with pytest.raises(DataError) as caught:
        read_rows(write(tmp_path / "a.jsonl", text))
    assert f"a.jsonl:2: {problem}" in str(caught.value)


@pytest.mark.parametrize("key", ["²", "9" * 5000])
def test_a_key_that_is_no_number_of_an_option_is_no_traceback(tmp_path, key):
    with pytest.raises(DataError, match="is none of the options"):
        read_rows(write(tmp_path / "a.csv", f"question,A,B,answer\nq,x,y,{key}\n"), **SAID)


def test_a_key_that_is_an_empty_object_is_no_traceback(tmp_path):
    row = {"question": "Who?", "options": ["we", "they"], "answer": {}}
    with pytest.raises(DataError, match=r"a\.jsonl:1: answer: must be a text"):
        read_rows(write(tmp_path / "a.jsonl", json.dumps(row)), **SAID)


def test_a_schema_beside_the_rows_of_a_document_may_be_a_text(tmp_path):
    row = {"prompt": "q", "chosen": "a", "rejected": "b"}
    text = json.dumps({"schema": "pairs-1", "data": [row]})
    (item,) = read_rows(write(tmp_path / "a.json", text), **SAID)
    assert item.prompt == "q"


def test_a_text_beside_the_rows_of_a_document_is_named(tmp_path):
    rows = [{"question": "q?", "A": "x", "B": "y", "answer": "B"}]
    whole = {"passage": "A guest came.", "version": 2, "questions": rows}
    found = load(write(tmp_path / "a.json", json.dumps(whole)), language="en")
    assert [item.prompt for item in found] == ["q?"]
    assert [note for note in found.notes if "passage" in note]
    assert not [note for note in found.notes if "version" in note]


def test_a_line_of_jsonl_ends_only_at_a_line_feed_and_every_bad_line_is_named(tmp_path):
    good = '{"prompt": "a\u2028b\x85c", "chosen": "a", "rejected": "b"}'
    (item,) = read_rows(write(tmp_path / "a.jsonl", good), **SAID)
    assert item.prompt == "a\u2028b\x85c"
    with pytest.raises(DataError) as caught:
        read_rows(write(tmp_path / "a.jsonl", f"{good}\n\n{good[:-5]}\n[1]\n{good}"), **SAID)
    assert [(p.line, p.reason.partition(":")[0]) for p in caught.value.problems] == [
        (3, "Invalid JSON"),
        (4, "the line is not a JSON object"),
    ]


def test_two_columns_of_the_key_that_disagree_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", "question,A,B,answer,correct\nWho?,we,they,A,B\n")
    with pytest.raises(DataError, match="two readings"):
        load(path, language="en")


def test_a_column_that_a_shape_does_not_read_is_named(tmp_path):
    path = write(tmp_path / "a.csv", "prompt,chosen,rejected,answer\nWho?,we,they,B\n")
    assert "Not read: answer (1 of 1 rows filled)." in load(path, language="en").notes


@pytest.mark.parametrize(
    "cell",
    [
        "they | nobody",
        "they; nobody",
        "they;nobody",
        '"1. they\n2. nobody"',
        "1. they 2. nobody",
        "(a) they (b) nobody",
    ],
)
def test_several_wrong_answers_in_a_cell_are_read_without_their_marks(tmp_path, cell):
    path = write(tmp_path / "a.csv", f"question,right,wrong answers\nWho?,we,{cell}\n")
    (item,) = load(path, language="en")
    assert {one.text for one in item.rejected} == {"they", "nobody"}


def test_a_semicolon_of_html_and_a_number_in_a_sentence_part_no_answers(tmp_path):
    rows = "Who?,we &amp; you,they &amp; I\nWhen?,now,On 2. May or 1. June\n"
    path = write(tmp_path / "a.csv", f"question,right,wrong answers\n{rows}")
    texts = [one.text for item in load(path, language="en") for one in item.rejected]
    assert texts == ["they &amp; I", "On 2. May or 1. June"]


def test_options_that_are_lettered_in_a_line_are_read(tmp_path):
    path = write(tmp_path / "a.csv", "question,options,answer\nWho?,A) we B) they C) I,B\n")
    (item,) = load(path, language="en")
    assert (item.chosen.text, len(item.rejected)) == ("they", 2)


def test_rows_whose_scores_say_the_opposite_are_counted(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "prompt,chosen,rejected,score_chosen,score_rejected\nWho?,we,they,2,5\nWhy?,so,no,5,2\n",
    )
    (note,) = load(path, language="en").notes
    assert note.startswith("In 1 of 2 rows")
    assert "score_chosen" in note


def test_an_entry_of_a_json_document_that_is_no_object_is_refused(tmp_path):
    row = {"prompt": "When?", "chosen": "now", "rejected": "never"}
    path = write(tmp_path / "a.json", json.dumps({"rows": [row, 3]}))
    with pytest.raises(DataError) as caught:
        read_rows(path, **SAID)
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert "not a JSON object" in problem.reason


PAIRS = shapes()["prompt, chosen, rejected"].parts[0].make
TRICKY = [
    "",
    " ",
    "nan",
    "#N/A",
    "[1]",
    '["a", "b"]',
    "{}",
    "array(['a'])",
    "a plain text",
    " text ",
]
TRICKY += ["Human: a question\nAssistant: an answer of some length"]
TRICKY += ["\n\nHuman: a question\n\nAssistant: an answer", "x\n\nAssistant: y", "12345678", "[odd"]
CELL = st.sampled_from([*TRICKY, None, 7, 0.5, True, ["a"], [{"role": "user", "content": "a"}]])


@given(
    st.fixed_dictionaries(
        {"prompt": CELL, "chosen": CELL, "rejected": CELL},
        optional={"context": CELL, "system": CELL, "after": CELL, "language": st.just("en")},
    )
)
@example({"prompt": "a question", "chosen": "a  plain text", "rejected": "a plain text"})
@example({"prompt": "a question", "chosen": "a plain text", "rejected": "a pl\u200bain text"})
@example({"prompt": "a question", "chosen": "a plain text", "rejected": "\u200b" * 20})
@example({"prompt": "a question", "chosen": "a plain t\u00e9xt", "rejected": "a plain te\u0301xt"})
def test_a_record_of_plain_texts_is_read_as_any_other(record):
    """The short way reads what the long one does, or leaves the record to it."""
    short = plain_reader(PAIRS)(record)
    assert short is None or short == read_record(PAIRS, record, System())


def test_plain_texts_take_the_short_way():
    record = {"prompt": "What now? ", "chosen": " A first text", "rejected": "Another text"}
    short = plain_reader(PAIRS)(record | {"language": "en"})
    assert short is not None
    assert (short.prompt, *short.right, *short.wrong) == (
        "What now?",
        "A first text",
        "Another text",
    )


PIECES = [
    *"<[]>|｜【】:：#*_/()（）=+-–—&;.✓✗★►→←○× \nab",
    *("user", "Assistant", "Q", "問題", "INST", "s", "start_of_turn", "correct", "неверно", "amp"),
]
MARKED = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)


def refused(prompt, answers):
    try:
        refuse_turns(prompt, answers)
    except UnreadError as error:
        return error.defects
    return ()


class Anything:
    """Stands for the short way's expression, and finds something in every text."""

    def search(self, _text):
        return True


@settings(max_examples=400)
@given(prompt=MARKED.filter(str.strip), answers=st.lists(MARKED.filter(str.strip), min_size=2))
@example(prompt="What now?", answers=["user: a", "user: b"])
@example(prompt="What now?", answers=["a ✓", "b"])
@example(prompt="What now?", answers=["a (correct)", "b"])
@example(prompt="What now?", answers=["a - wrong", "b"])
@example(prompt="What now?", answers=["__a word__", "b"])
@example(prompt="What now, friend?", answers=["What now, friend? a", "What now, friend? b"])
@example(prompt="<|user|>a", answers=["a", "b"])
def test_marks_are_looked_for_wherever_one_can_be(prompt, answers):
    """Texts without a certain character take a short way, which finds what the long way does."""
    prompt, answers = prompt.strip(), [answer.strip() for answer in answers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn_marks, "_IN_MARKS", Anything())
        patch.setattr(turn_marks, "_may_open", lambda _: True)
        whole = refused(prompt, answers)
    assert refused(prompt, answers) == whole


@given(
    names=st.lists(st.sampled_from(["prompt", "chosen", "rejected", "id", "other"]), unique=True),
    more=st.sampled_from(["", "question", "A", "answers", "rejected_2"]),
)
def test_a_row_under_the_names_of_fields_is_taken_as_it_is(names, more):
    columns = columns_of([*names, more] if more else names)
    row = {name: f"a text of {name}" for name in columns.whole}
    fields = {field: f"a text of {name}" for name, field in columns.whole.items()}
    if not columns.options and len(fields) == len(columns.by_field):
        assert record_of(row, columns) == fields
