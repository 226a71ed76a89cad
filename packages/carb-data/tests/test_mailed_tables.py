"""What people send by mail: Excel with its habits, headings in their languages, long and joined
cells; each is read, or refused with its cause and its place."""

from __future__ import annotations

import datetime
import json
import re
import zipfile

import polars as pl
import pytest

from carb_data import CarbError, DataError, load

HEAD = ["question", "A", "B", "answer"]


@pytest.fixture
def excel():
    return pytest.importorskip("openpyxl", reason="needs the extra 'excel'")


@pytest.fixture
def book(excel, tmp_path):
    def make(*sheets, change=None):
        made = excel.Workbook()
        made.remove(made.active)
        for title, rows in sheets:
            sheet = made.create_sheet(title)
            for row in rows:
                sheet.append(row)
        if change is not None:
            change(made)
        made.save(tmp_path / "a.xlsx")
        return tmp_path / "a.xlsx"

    return make


def lines(tmp_path, *rows):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def cells(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_sheet_to_read_first_and_a_title_above_the_table_are_passed_over(book):
    path = book(
        ("Read me", [["The questions are on the next sheet."]]),
        ("Items", [["Our village, 2026"], [], HEAD, ["Who greets first?", "guest", "host", "A"]]),
    )
    (item,) = load(path)
    assert (item.id, item.chosen.text) == ("row-4", "guest")
    assert load(path).notes == (
        "1 more sheet not read: Read me.",
        "The heading is row 3; the rows above it are not read.",
    )


def test_two_sheets_that_hold_tables_are_refused_by_name(book):
    rows = [["prompt", "chosen", "rejected"], ["Who?", "we", "they"]]
    with pytest.raises(CarbError, match=r"2 sheets hold tables \(Japan, Thailand\)"):
        load(book(("Japan", rows), ("Thailand", rows)), language="en")


def test_a_hidden_sheet_is_not_read_and_is_named(book):
    def hide(made):
        made["Old"].sheet_state = "hidden"

    path = book(
        ("Old", [HEAD, ["Who?", "they", "we", "A"]]),
        ("New", [HEAD, ["Who?", "we", "they", "A"]]),
        change=hide,
    )
    found = load(path)
    assert (found[0].chosen.text, found.notes[0]) == ("we", "1 more sheet not read: Old (hidden).")


def test_numbers_are_read_as_the_cell_shows_them(book):
    def show(made):
        for cell, form in {
            "B2": "0%",
            "C2": "0.0%",
            "B3": "#,##0",
            "C3": "000",
            "B4": "h:mm",
        }.items():
            made["S"][cell].number_format = form
        made["S"]["C4"].number_format = "dd/mm/yyyy"

    path = book(
        (
            "S",
            [
                HEAD,
                ["How much?", 0.5, 0.125, "A"],
                ["How many?", 12500, 7, "A"],
                ["When?", datetime.time(13, 30), datetime.date(2026, 4, 13), "A"],
            ],
        ),
        change=show,
    )
    found = load(path)
    assert [(i.chosen.text, i.rejected[0].text) for i in found] == [
        ("50%", "12.5%"),
        ("12,500", "007"),
        ("13:30", "13/04/2026"),
    ]


@pytest.mark.parametrize(
    ("value", "form", "said"),
    [
        (datetime.date(2026, 4, 13), "d mmmm", "cell B2 shows .* 'd mmmm'"),
        (datetime.date(2026, 4, 13), "mm-dd-yy", "cell B2 shows .* 'mm-dd-yy'"),
        (datetime.timedelta(hours=30), "[h]:mm", "cell B2 shows"),
        ("=A2", "General", "holds a formula without a result"),
        ("#N/A", "General", "cell B2 shows the error #N/A"),
        ("x" * 32_767, "General", "cell B2 is full"),
    ],
)
def test_what_the_cell_shows_for_no_reader_in_the_same_way_is_refused(book, value, form, said):
    def show(made):
        made["S"]["B2"].number_format = form

    path = book(("S", [HEAD, ["When?", value, "never", "A"]]), change=show)
    with pytest.raises(DataError, match=rf"a\.xlsx:2: A: {said}"):
        load(path)


def test_a_score_that_no_reader_sees_in_the_same_way_is_named_with_its_cell(book):
    def show(made):
        made["S"]["D2"].number_format = "mm-dd-yy"

    rows = [["id", "question", "option", "is_correct"]]
    rows += [[1, "When?", "now", datetime.date(2026, 4, 13)], [1, "When?", "never", 0]]
    with pytest.raises(DataError, match=r"a\.xlsx:2: is_correct: cell D2 shows"):
        load(book(("S", rows), change=show))


def test_cells_merged_downwards_are_filled_and_others_are_refused(book):
    rows = [["country", *HEAD], ["Thailand", "q1", "a", "b", "A"], [None, "q2", "a", "b", "A"]]
    path = book(("S", rows), change=lambda made: made["S"].merge_cells("A2:A3"))
    assert [item.culture for item in load(path)] == ["thai", "thai"]
    path = book(("S", rows), change=lambda made: made["S"].merge_cells("C3:D3"))
    with pytest.raises(DataError, match="the cells C3:D3 are merged; split them"):
        load(path)


def test_a_workbook_that_unpacks_to_far_more_is_refused(excel, tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * (64 * 1024 * 1024))
    with pytest.raises(CarbError, match=r"unpacks to .* bytes.* save the sheet as CSV"):
        load(path)


def test_rows_far_below_the_table_are_read_and_the_empty_ones_between_are_not(book):
    def change(made):
        sheet = made["S"]
        sheet["A600000"] = " "
        for column, text in zip("ABCD", ["w?", "a", "b", "B"], strict=True):
            sheet[f"{column}500000"] = text
        sheet.merge_cells("A600001:A600002")
        sheet["A600001"] = "v?"
        for row in (600001, 600002):
            sheet[f"B{row}"], sheet[f"C{row}"], sheet[f"D{row}"] = "a", "b", "A"

    found = load(book(("S", [HEAD, ["q?", "a", "b", "A"]]), change=change), language="en")
    assert [item.id for item in found] == ["row-2", "row-500000", "row-600001", "row-600002"]
    assert [item.chosen.text for item in found] == ["a", "b", "a", "a"]
    assert [item.prompt for item in found][2:] == ["v?", "v?"]


def test_a_cell_far_away_and_broken_xml_are_refused(excel, book, tmp_path):
    def stray(made):
        made["S"]["XFD900000"] = "x"

    with pytest.raises(CarbError, match="delete the stray cells"):
        load(book(("S", [HEAD]), change=stray))
    whole = book(("S", [HEAD, ["q", "a", "b", "A"]]))
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content[:-40] if "sheet1" in name else content)
    with pytest.raises(CarbError, match=r"b\.xlsx is not a readable Excel file"):
        load(tmp_path / "b.xlsx")


@pytest.mark.parametrize(
    "heading",
    [
        "Frage;richtige Antwort;falsche Antwort 1;falsche Antwort 2",
        "Pregunta;Respuesta correcta;Respuesta incorrecta 1;Respuesta incorrecta 2",
        "Вопрос;Правильный ответ;Неправильный ответ 1;Неправильный ответ 2",
        "質問;正解;不正解1;不正解2",
        "问题;正确答案;错误答案1;错误答案2",
        "질문;정답;오답1;오답2",
        "คำถาม;คำตอบที่ถูก;คำตอบที่ผิด 1;คำตอบที่ผิด 2",
        "Câu hỏi;Đáp án đúng;Đáp án sai 1;Đáp án sai 2",
        "السؤال;الإجابة الصحيحة;إجابة خاطئة 1;إجابة خاطئة 2",
        "設問:;正答:;不正解1;不正解2",
        "Fragetext;bessere Antwort;schlechtere Antwort 1;schlechtere Antwort 2",
        "Pregunta;Mejor respuesta;Peor respuesta 1;Peor respuesta 2",
        "Текст вопроса;Лучший ответ;Худший ответ 1;Худший ответ 2",
        "題目內容;更好的回答;差的回答1;差的回答2",
        "問題文;良い回答;悪い回答1;悪い回答2",
        "문제 내용;좋은 답변;나쁜 답변1;나쁜 답변2",
        "ข้อคำถาม;คำตอบที่ดี;คำตอบที่ไม่ดี 1;คำตอบที่ไม่ดี 2",
        "Nội dung câu hỏi;Câu trả lời tốt;Câu trả lời xấu 1;Câu trả lời xấu 2",
        "نص السؤال;إجابة جيدة;إجابة سيئة 1;إجابة سيئة 2",
    ],
)
def test_headings_are_known_in_the_ten_languages(tmp_path, heading):
    (item,) = load(cells(tmp_path, f"{heading}\nq?;right;one;two\n"))
    assert (item.prompt, item.chosen.text) == ("q?", "right")
    assert {answer.text for answer in item.rejected} == {"one", "two"}


@pytest.mark.parametrize(
    ("heading", "key"),
    [
        ("question,أ,ب,ج,answer", "ب"),
        ("question,A,B,C,answer", "ข"),
        ("คำถาม,ก,ข,ค,เฉลย", "ข."),
        ("question,A,B,C,answer", "나"),
        ("вопрос,А,Б,В,ответ", "Б"),
        ("question,A,B,C,answer", "【B】"),
        ("question,option 1,option 2,option 3,answer", "②"),
        ("문항,①,②,③,정답", "②"),
        ("No.|Question|A)|B)|C)|Answer:", "B)"),
        ("question,A,B,C,answer", "Option B"),
        ("question,A,B,C,answer", "Answer: (b)"),
        ("question,A,B,C,answer", "B. y"),
    ],
)
def test_keys_may_be_letters_of_other_alphabets(tmp_path, heading, key):
    row = "1|q?|x|y|z|" if "|" in heading else "q?,x,y,z,"
    assert load(cells(tmp_path, f"{heading}\n{row}{key}\n"))[0].chosen.text == "y"


def test_cyrillic_letters_that_look_like_latin_ones_are_refused(tmp_path):
    with pytest.raises(CarbError, match="look the same in Latin and Cyrillic"):
        load(cells(tmp_path, "question,A,B,C,answer\nq?,x,y,z,В\n"))


def test_a_text_of_any_length_is_read(tmp_path):
    (item,) = load(cells(tmp_path, f'prompt,chosen,rejected\n"{"word, " * 40_000}",a,b\n'))
    assert len(item.prompt) > 200_000


@pytest.mark.parametrize(
    "value", ["#N/A", "NaN", "#REF!", "<NA>", "NA", "NULL", "n/a", "#NV", "#SPILL!", "#ИМЯ?"]
)
def test_what_stands_for_a_missing_value_is_no_answer(tmp_path, value):
    with pytest.raises(DataError, match=rf"a\.csv:2: rejected: holds '{re.escape(value)}'"):
        load(cells(tmp_path, f"prompt,chosen,rejected\nq?,a,{value}\n"))


def test_a_list_that_numpy_printed_is_refused(tmp_path):
    text = "prompt,chosen,rejected\nq?,a,\"['one' 'two']\"\n"
    with pytest.raises(DataError, match="or numpy writes it"):
        load(cells(tmp_path, text))
    (item,) = load(cells(tmp_path, text.replace("' '", "', '")))
    assert {answer.text for answer in item.rejected} == {"one", "two"}


def test_context_goes_before_the_question_and_other_columns_are_named(tmp_path):
    row = {"passage": "Ana is a guest.", "question": "What does she do?", "A": "bow", "B": "sing"}
    found = load(lines(tmp_path, row | {"answer": "A", "note": "x"}, row | {"answer": "B"}))
    assert found[0].prompt == "Ana is a guest.\n\nWhat does she do?"
    assert "Not read: note (1 of 2 rows filled)." in found.notes


def test_two_columns_that_can_be_the_question_are_refused(tmp_path):
    row = {"prompt": "Answer shortly.", "question": "Who?", "chosen": "we", "rejected": "they"}
    with pytest.raises(CarbError, match="prompt and question can be the question"):
        load(lines(tmp_path, row))


def test_the_turns_that_both_answers_share_are_asked(tmp_path):
    def talk(*texts):
        return [
            {"role": "assistant" if n % 2 else "user", "content": text}
            for n, text in enumerate(texts)
        ]

    row = {"prompt": "Hi.", "chosen": talk("Hi.", "Hello.", "And?", "Bow."), "system": "Be short."}
    (item,) = load(lines(tmp_path, row | {"rejected": talk("Hi.", "Hello.", "And?", "Sing.")}))
    assert [turn.content for turn in item.prompt] == ["Be short.", "Hi.", "Hello.", "And?"]
    assert (item.prompt[0].role, item.chosen.text) == ("system", "Bow.")
    with pytest.raises(DataError, match="rejected: follows another conversation"):
        load(lines(tmp_path, row | {"rejected": talk("Hi.", "Yes?", "And?", "Sing.")}))
    other = {"prompt": "Ho.", "rejected": talk("Hi.", "Hello.", "And?", "Sing.")}
    with pytest.raises(DataError, match="prompt: is not the beginning of the conversation"):
        load(lines(tmp_path, row | other))


def test_two_keys_must_agree(tmp_path):
    row = {"question": "Which?", "A": "w", "B": "x", "C": "y", "label": 3, "correct_option": "C"}
    other = row | {"question": "And?", "label": 2, "correct_option": "B"}
    assert load(lines(tmp_path, row, other))[0].chosen.text == "y"
    with pytest.raises(DataError, match=r"label says 'y' and correct_option says 'x'"):
        load(lines(tmp_path, row | {"correct_option": "B"}, other))


@pytest.mark.parametrize("chosen", ["response_a", "A", "a"])
def test_a_chosen_that_names_a_column_is_looked_up(tmp_path, chosen):
    row = {"prompt": "q?", "response_a": "bow", "response_b": "sing"}
    (item,) = load(lines(tmp_path, row | {"chosen": chosen, "rejected": "response_b"}))
    assert (item.chosen.text, item.rejected[0].text) == ("bow", "sing")


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (4, 4.0, "1 of 1 rows are ties by their own columns"),
        ("4,5", "4.50", "1 of 1 rows are ties by their own columns"),
        ("0,125", "0,125", "1 of 1 rows are ties by their own columns"),
        ("3,5", "4,25", "In 1 of 1 rows the chosen answer has a lower score"),
    ],
)
def test_ties_and_lower_scores_by_a_tables_own_columns_are_named(tmp_path, one, other, said):
    row = {"prompt": "q?", "chosen": "bow", "rejected": "sing"}
    scores = {"chosen_score": one, "rejected_score": other}
    (note,) = load(lines(tmp_path, row | scores)).notes
    assert note.startswith(said)


@pytest.mark.parametrize("name", ["margin", "score_diff"])
def test_margins_that_are_none_or_negative_are_named(tmp_path, name):
    row = {"prompt": "q?", "chosen": "bow", "rejected": "sing"}
    rows = [row | {"prompt": f"{margin}?", name: margin} for margin in (0, "-0,5", 2.0)]
    lower, ties = load(lines(tmp_path, *rows)).notes
    assert lower.startswith("In 1 of 3 rows the chosen answer has a lower score")
    assert ties.startswith("1 of 3 rows are ties by their own columns")


@pytest.mark.parametrize(("best", "right"), [("4,5", "bow"), ("1.000,5", None), ("1,000", None)])
def test_scores_may_have_decimal_commas(tmp_path, best, right):
    answers = [{"text": "bow", "pm_score": best}, {"text": "sing", "pm_score": "4,25"}]
    path = lines(tmp_path, {"question": "q?", "answers": answers})
    if right:
        assert load(path)[0].chosen.text == right
        return
    with pytest.raises(DataError, match="must be numbers"):
        load(path)


@pytest.mark.parametrize(
    "question",
    [
        "How?\nA. kick\nB. bow\nC. nod",
        "How? (A) Kick, (B) Bow, (C) Nod",
        "How? A: kick; B: bow; C: nod.",
    ],
)
def test_a_question_that_gives_the_options_other_letters_is_refused(tmp_path, question):
    row = {"question": question, "A": "bow", "B": "kick", "C": "nod", "answer": "B"}
    with pytest.raises(DataError, match=r"a\.jsonl:1: answer: the question calls '(bow|kick)'"):
        load(lines(tmp_path, row))
    sentences = {"question": "How? A. Kick. B. Bow.", "A": "Bow.", "B": "Kick."}
    with pytest.raises(DataError, match=r"calls 'kick\.' A"):
        load(lines(tmp_path, row | sentences))
    asked = [{"role": "user", "content": question}]
    for fields in ({"messages": asked}, {"context": question, "question": "How?"}):
        other = {name: value for name, value in row.items() if name != "question"} | fields
        with pytest.raises(DataError, match="answer: the question calls"):
            load(lines(tmp_path, other))
    same = row | {"A": "kick", "B": "bow"}
    for other in (same, row | {"answer": "kick"}, row | {"question": "How? See e.g. a. or B."}):
        assert len(load(lines(tmp_path, other))) == 1


def test_letters_of_the_options_are_taken_off_only_in_their_order(tmp_path):
    row = {"question": "q?", "answer": "B"}
    found = load(lines(tmp_path, row | {"options": ["A. bow", "B. sing", "C) nod"]}))
    assert (found[0].chosen.text, len(found.notes)) == ("sing", 1)
    with pytest.raises(DataError, match="their own letters in the order B, A"):
        load(lines(tmp_path, row | {"options": ["(B) bow", "(A) sing"]}))
    same = {"options": ["St. John", "A. Smith"], "answer": "A. Smith"}
    assert load(lines(tmp_path, row | same))[0].chosen.text == "A. Smith"


def test_letters_are_taken_off_where_one_option_has_none(tmp_path):
    row = {"question": "q?", "options": ["(A) bow", "(B) sing", "None of these"]}
    found = load(lines(tmp_path, row | {"answer": "B"}, row | {"question": "w?", "answer": "C"}))
    assert [item.chosen.text for item in found] == ["sing", "None of these"]
    assert {answer.text for answer in found[0].rejected} == {"bow", "None of these"}
    assert any("carry their own letters" in note for note in found.notes)


@pytest.mark.parametrize(
    "options",
    [
        ["1.5 kg", "2.25 kg", "3.75 kg"],
        ["1:30", "2:45", "3:00"],
        ["1 - 2 days", "2 - 3 days", "3 - 4 days"],
    ],
)
def test_numbers_with_which_options_begin_are_no_marks(tmp_path, options):
    found = load(lines(tmp_path, {"question": "q?", "options": options, "answer": "B"}))
    assert found[0].chosen.text == options[1]
    assert {answer.text for answer in found[0].rejected} == {options[0], options[2]}


@pytest.mark.parametrize("key", ["the  Café", "The Cafe\u0301", "THE CAFÉ\u200b"])
def test_a_key_may_be_a_text_in_another_case_form_or_spacing(tmp_path, key):
    row = {"question": "q?", "options": ["a park", "The Café"], "answer": key}
    assert load(lines(tmp_path, row))[0].chosen.text == "The Café"
    with pytest.raises(DataError, match="answer: "):
        load(lines(tmp_path, row | {"options": ["The Café!", "the café", "The café"]}))


@pytest.mark.parametrize("answer", ["A. sing", "D. sing", "B. s"])
def test_a_key_whose_letter_and_text_disagree_is_refused(tmp_path, answer):
    row = {"question": "q?", "options": ["bow", "sing", "nod"], "answer": answer}
    with pytest.raises(DataError, match=f"answer: '{answer}' is none of the options"):
        load(lines(tmp_path, row))


@pytest.mark.parametrize(("index", "said"), [(1, "count from 0"), (2, "count from 1")])
def test_a_key_that_is_a_text_tells_how_another_counts(tmp_path, index, said):
    row = {"question": "q?", "options": ["bow", "sing", "nod"], "answer": "sing"}
    found = load(lines(tmp_path, row | {"answer_index": index}))
    assert found[0].chosen.text == "sing"
    assert any(said in note for note in found.notes)


def test_numbers_that_options_carry_do_not_tell_how_keys_count(tmp_path):
    """A key may be the number that an option shows, or its index in the list."""
    row = {"question": "q?", "options": ["1. bow", "2. sing", "3. nod"], "answer": 2}
    with pytest.raises(CarbError, match="count from 0 or from 1"):
        load(lines(tmp_path, row))


def test_a_key_that_names_no_option_is_refused_by_its_column(tmp_path):
    row = {"question": "q?", "A": "bow", "B": "sing", "answer": "B", "solution": "It is so."}
    with pytest.raises(DataError, match=r"solution: 'It is so\.' is none of the options"):
        load(lines(tmp_path, row))


def test_languages_are_read_as_tags_or_refused(tmp_path):
    row = {"prompt": "q?", "chosen": "bow", "rejected": "sing"}
    tags = {
        "jp": "ja",
        "kor": "ko",
        "twi": "twi",
        "knc": "knc",
        "Deutsch": "de",
        "EN": "en",
        "eng_Latn": "en",
        "zho_Hant": "zh-Hant",
        "zh-cn": "zh-CN",
        "en_US.UTF-8": "en-US",
    }
    found = load(lines(tmp_path, *(row | {"language": tag} for tag in tags)))
    assert [item.language for item in found] == [*tags.values()]
    refused = {
        "kr": "Kanuri.*'ko'",
        "tw": "Twi.*twi.*'zh-Hant'",
        "br": "bre.*'pt-BR'",
        "xx": "no language of ISO 639",
        "jap": "'ja'",
        "chn": "Chinook.*'zh'",
        "all": "Allar.*en, ja or zh-Hant",
        "mul": "several languages.*en, ja or zh-Hant",
        "multi": "several languages.*en, ja or zh-Hant",
        "und": "names no language.*en, ja or zh-Hant",
        "C.UTF-8": "en, ja or zh-Hant",
        "sr_RS@latin": "en or zh-Hant",  # a script or a variety, which would be lost
        "ca_ES.UTF-8@valencia": "en or zh-Hant",
    }
    for tag, said in refused.items():
        with pytest.raises(DataError, match=f"language: .*{said}"):
            load(lines(tmp_path, row | {"language": tag}))


def test_bad_rows_are_left_out_up_to_a_number_or_a_share(tmp_path):
    good, bad = ({"prompt": "q?", "chosen": "a", "rejected": wrong} for wrong in ("b", "a"))
    path = lines(tmp_path, good, bad, good, good)
    with pytest.raises(DataError, match="--skip-bad 1"):
        load(path)
    for most in (1, 0.25):
        found = load(path, skip_bad=most)
        assert [item.id for item in found] == ["row-1", "row-3", "row-4"]
        assert "1 rows make no set and are left out" in found.notes[0]
        assert "a.jsonl:2: rejected: two answers are the same" in found.notes[0]
    with pytest.raises(DataError):
        load(path, skip_bad=0.2)


def test_what_is_given_fills_only_what_is_empty_and_ids_carry_the_file(tmp_path):
    for name, country in (("ja.csv", "Japan"), ("th.csv", "")):
        text = f"country,prompt,chosen,rejected\n{country},q?,bow,sing\n"
        (tmp_path / name).write_text(text)
    found = load(tmp_path, culture="thai", language="en")
    assert [(item.id, item.culture) for item in found] == [
        ("ja.csv:row-2", "japanese"),
        ("th.csv:row-2", "thai"),
    ]
    assert load(tmp_path / "th.csv", prefix=True, culture="thai")[0].id == "th.csv:row-2"


@pytest.mark.parametrize(
    "cell",
    [
        "kick；shout；sing",
        "kick؛ shout؛ sing",
        "kick<br>shout<br>sing",
        "kick // shout//sing",
        "• kick • shout • sing",
        "kick ### shout ## sing",
        "kick¦shout [SEP] sing",
        "kick\u2028shout\u2029sing",
        "kick｜shout｜sing",
        "① kick ② shout ③ sing",
        "가. kick 나. shout 다. sing",
        "А) kick Б) shout В) sing",
        "ก. kick ข. shout ค. sing",
        "A、kick B、shout C、sing",
    ],
)
def test_answers_may_be_joined_as_their_script_or_html_joins(tmp_path, cell):
    row = {"prompt": "q?", "correct answer": "bow", "wrong answers": cell}
    (item,) = load(lines(tmp_path, row))
    assert {answer.text for answer in item.rejected} == {"kick", "shout", "sing"}


@pytest.mark.parametrize(
    "cell",
    [
        "a kick, a shout, a song",
        "a kick, a shout",
        "蹴る、叫ぶ、歌う",
        "kick / shout",
        "a kick/a shout/a song",
        "kick && shout",
        "kick\tshout",
        "kick OR shout",
        "kick\\nshout",
        "kick ~ shout",
        "kick · shout",
        "kick -> shout",
        "kick +++ shout",
        "kick++shout",
        "kick & shout",
        "kick@@shout",
        "['kick', nan]",
        "[kick, shout]",
    ],
)
def test_a_cell_of_several_answers_that_may_be_one_is_refused(tmp_path, cell):
    row = {"prompt": "q?", "correct answer": "bow"}
    with pytest.raises(CarbError, match=r"a\.jsonl:1: wrong answers: .*semicolon"):
        load(lines(tmp_path, row | {"wrong answers": cell}))
    (item,) = load(lines(tmp_path, row | {"wrong answer": cell}))
    assert item.rejected[0].text == cell


@pytest.mark.parametrize(
    ("heading", "cell", "key"),
    [
        ("문제,보기,정답", "① x ② y ③ z", "②"),
        ("คำถาม,ตัวเลือก,เฉลย", "ก. x ข. y ค. z", "ข"),
        ("Вопрос,Варианты,Ответ", "А) x Б) y В) z", "Б"),
        ("问题,选项,答案", "A.x B.y C.z", "B"),
        ("السؤال,الخيارات,الإجابة", "أ) x ب) y ج) z", "ب"),
        ("Câu hỏi,Các lựa chọn,Đáp án", "A. x; B. y; C. z", "B"),
    ],
)
def test_options_in_one_cell_are_read_in_other_languages(tmp_path, heading, cell, key):
    (item,) = load(cells(tmp_path, f"{heading}\nq?,{cell},{key}\n"))
    assert item.chosen.text == "y"
    assert {answer.text for answer in item.rejected} == {"x", "z"}


@pytest.mark.parametrize("cell", [r"('kick', 'don\'t')", r"{'don\'t', 'kick'} "])
def test_answers_may_be_written_as_python_writes_several(tmp_path, cell):
    (item,) = load(lines(tmp_path, {"prompt": "q?", "chosen": "bow", "rejected": cell}))
    assert {answer.text for answer in item.rejected} == {"kick", "don't"}


@pytest.mark.parametrize("cell", ["(laughs)", "('kick')", "(kick, shout)", '"kick"', "{kick}"])
def test_brackets_and_quotes_around_one_answer_stay(tmp_path, cell):
    (item,) = load(lines(tmp_path, {"prompt": "q?", "chosen": "bow", "rejected": cell}))
    assert item.rejected[0].text == cell


def test_a_conversation_that_was_written_as_json_twice_is_read(tmp_path):
    def twice(answer):
        turns = [{"role": "user", "content": "q?"}, {"role": "assistant", "content": answer}]
        return json.dumps(json.dumps(turns))

    row = {"prompt": "q?", "chosen": twice("bow"), "rejected": twice("kick")}
    (item,) = load(lines(tmp_path, row))
    assert (item.prompt, item.chosen.text, item.rejected[0].text) == ("q?", "bow", "kick")


def test_two_turns_of_the_system_are_refused(tmp_path):
    turns = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "q?"}]
    row = {"system": "Be kind.", "prompt": turns, "chosen": "bow", "rejected": "kick"}
    with pytest.raises(DataError, match=r"a\.jsonl:1: system: .*another"):
        load(lines(tmp_path, row))
    assert load(lines(tmp_path, row | {"system": "Be short."}))[0].prompt[0].content == "Be short."


def test_a_conversation_that_numpy_printed_is_refused(tmp_path):
    talk = "[{'role': 'user', 'content': 'q'}\n {'role': 'assistant', 'content': 'bow'}]"
    with pytest.raises(DataError, match=r"chosen: .*numpy"):
        load(lines(tmp_path, {"prompt": "q", "chosen": talk, "rejected": "kick"}))


@pytest.mark.parametrize("end", ["\n\n", "\n"])
def test_a_transcript_that_the_answer_continues_is_a_question(tmp_path, end):
    prompt = f"{end}Human: Who?{end}Assistant: We.{end}Human: And then?{end}Assistant:"
    (item,) = load(
        lines(tmp_path, {"prompt": prompt, "chosen": " A deep bow.", "rejected": " Kick."})
    )
    assert [turn.content for turn in item.prompt] == ["Who?", "We.", "And then?"]


@pytest.mark.parametrize("form", ["{} - {}", "Option {}: {}", "**{}.** {}"])
def test_letters_of_options_are_taken_off_in_other_forms(tmp_path, form):
    options = [form.format("A", "bow"), form.format("B", "kick")]
    (item,) = load(lines(tmp_path, {"question": "q?", "options": options, "answer": "B"}))
    assert (item.chosen.text, item.rejected[0].text) == ("kick", "bow")


def test_options_may_be_objects_of_a_label_and_a_text(tmp_path):
    options = [{"label": "B", "text": "kick"}, {"label": "A", "text": "bow"}]
    (item,) = load(lines(tmp_path, {"question": "q?", "choices": options, "answer": "A"}))
    assert item.chosen.text == "bow"


def test_numbers_that_pandas_made_floats_are_keys(tmp_path):
    text = "question,option 1,option 2,label\nq?,bow,kick,1.0\nw?,bow,kick,2.0\n"
    assert [item.chosen.text for item in load(cells(tmp_path, text))] == ["bow", "kick"]


def test_only_the_option_that_is_called_wrong_counts_as_wrong(tmp_path):
    row = {"prompt": "q?", "response_a": "bow", "response_b": "kick", "response_c": "nod"}
    names = {"chosen": "response_a", "rejected": "response_b"}
    (item,) = load(lines(tmp_path, row | names))
    assert [answer.text for answer in item.rejected] == ["kick"]


def test_a_source_that_is_a_text_to_read_is_named_as_not_read(tmp_path):
    row = {"source": "Ana and Ben meet in front of the temple.", "prompt": "Summarise."}
    found = load(lines(tmp_path, row | {"chosen": "They meet.", "rejected": "They part."}))
    assert "Not read: source (1 of 1 rows filled)." in found.notes


def test_answers_that_look_the_same_are_the_same(tmp_path):
    for chosen, rejected in (
        ("caf\u00e9", "cafe\u0301"),
        ("a  bow", "a bow"),
        ("a deep bow to the host", "a deep\u200b bow to the host"),
        ("a deep bow to the host", "\u200fa deep bow to the\u00ad host\ufeff"),
        ("a deep bow to the host", "a de\u200cep bow to the host"),
    ):
        with pytest.raises(DataError, match="two answers are the same"):
            load(lines(tmp_path, {"prompt": "q?", "chosen": chosen, "rejected": rejected}))


def test_joiners_that_change_how_a_word_is_written_make_another_answer(tmp_path):
    row = {"prompt": "q?", "chosen": "\u0645\u06cc\u200c\u0631\u0648\u0645"}
    row["rejected"] = row["chosen"].replace("\u200c", "")
    assert len(load(lines(tmp_path, row), language="fa")) == 1


def test_an_answer_without_a_visible_character_is_refused(tmp_path):
    for rejected in ("\u200b", "\u200b" * 30):
        with pytest.raises(DataError, match="no visible character"):
            load(lines(tmp_path, {"prompt": "q?", "chosen": "a bow", "rejected": rejected}))


def test_texts_of_a_singular_column_that_may_be_several_answers_are_named(tmp_path):
    row = {"question": "q?", "correct": "a bow", "wrong": "a kick; a shout; a song"}
    notes = " ".join(load(lines(tmp_path, row)).notes)
    assert "wrong counts as one answer" in notes
    assert "wrong answers" in notes
    assert not load(lines(tmp_path, row | {"correct": "a bow; a smile"})).notes


def test_hidden_rows_and_columns_are_named(book):
    def hide(made):
        made["S"].row_dimensions[3].hidden = True
        made["S"].column_dimensions.group("C", "G", hidden=True)

    found = load(book(("S", [HEAD, ["q?", "a", "b", "A"], ["w?", "a", "b", "B"]]), change=hide))
    (note,) = found.notes
    assert "row 3, column 'B', column 'answer'" in note


@pytest.mark.parametrize(
    "heading",
    [
        "question,a1,a2,a3,answerIndex",
        "goal,sol1,sol2,sol3,label",
        "query,ending0,ending1,ending2,gold",
    ],
)
def test_short_names_of_options_are_known(tmp_path, heading):
    found = load(cells(tmp_path, f"{heading}\nq?,x,y,z,0\nw?,x,y,z,2\n"))
    assert [item.chosen.text for item in found] == ["x", "z"]


HOW, BOTH, WHISTLE = "How do guests greet a host?", "With both hands.", "With a whistle."
ROLES = [
    ("[Kunde]", "[Berater]"),
    ("<|kunde|>", "<|berater|>"),
    ("【用户】", "【助手】"),
    ("用户：", "助手："),
    ("### Frage:", "### Antwort:"),
    ("Q:", "A:"),
    ("H:", "A:"),
    ("U:", "A:"),
    ("**User:**", "**Assistant:**"),
    ("<human>:", "<bot>:"),
    ("[INST]", "[/INST]"),
]


LABELS = ("### Antwort:", "A:")
"""Policies write them before an answer, and people before one question."""
SPEAKERS = [roles for roles in ROLES if roles[1] not in LABELS]


@pytest.mark.parametrize(
    ("asks", "answers", "whole"),
    [(*roles, True) for roles in ROLES] + [(*roles, False) for roles in SPEAKERS],
)
def test_answers_that_begin_with_a_role_are_refused(asks, answers, whole, tmp_path):
    before = f"{asks} {HOW}\n{answers} " if whole else f"{answers} "
    row = {"prompt": HOW, "chosen": f"{before}{BOTH}", "rejected": f"{before}{WHISTLE}"}
    with pytest.raises(DataError) as raised:
        load(lines(tmp_path, row))
    (problem,) = raised.value.problems
    assert (problem.line, problem.field) == (1, "chosen")
    assert (asks if whole else answers).strip("*").strip() in problem.reason
    assert "messages" in problem.reason


@pytest.mark.parametrize(
    ("asks", "answers", "turns"),
    [(*roles, ["Hi", "Hello", HOW]) for roles in ROLES]
    + [(*r, [HOW, ""]) for r in ROLES if r[0] != "Q:"],
)
def test_a_question_of_several_turns_in_one_text_is_refused(asks, answers, turns, tmp_path):
    marks = [asks, answers, asks]
    prompt = "\n".join(f"{m} {turn}" for m, turn in zip(marks, turns, strict=False))
    row = {"prompt": prompt, "chosen": BOTH, "rejected": WHISTLE}
    with pytest.raises(DataError) as raised:
        load(lines(tmp_path, row))
    assert [problem.field for problem in raised.value.problems] == ["prompt"]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "[Context] A village.\n[Question] Who greets?", "chosen": "A", "rejected": "B"},
        {"prompt": HOW, "chosen": "[1] With both hands.", "rejected": "[1] With a whistle."},
        {"prompt": HOW, "chosen": "Question: none asked.", "rejected": "They whistle."},
        {"prompt": HOW, "chosen": f"Answer: {BOTH}", "rejected": f"Answer: {WHISTLE}"},
        {
            "prompt": HOW,
            "chosen": f"ANSWER: {BOTH}\nSource: a",
            "rejected": "ANSWER: no\nSource: b",
        },
        {
            "prompt": HOW,
            "chosen": f"**Respuesta:** {BOTH}",
            "rejected": f"**Respuesta:** {WHISTLE}",
        },
        {
            "prompt": f"Question: {HOW}\nAnswer:",
            "chosen": f"Answer: {BOTH}",
            "rejected": "Answer: no",
        },
        {"prompt": HOW, "chosen": f"回答：{BOTH}", "rejected": f"回答：{WHISTLE}"},
        {"prompt": HOW, "chosen": "[Your Name]\n[Date]\nHi", "rejected": "[Your Name]\n[Date]\nYo"},
        {"prompt": HOW, "chosen": f"[Verse 1]\n{BOTH}", "rejected": f"[Verse 1]\n{WHISTLE}"},
        {"prompt": HOW, "chosen": f"### Greeting: {BOTH}", "rejected": f"### Greeting: {WHISTLE}"},
        {
            "prompt": f"Q: Who bows?\nA: The guest.\n\nQ: {HOW}\nA:",
            "chosen": BOTH,
            "rejected": WHISTLE,
        },
        {"prompt": f"{HOW}\nG: {BOTH}\nH: {WHISTLE}", "chosen": "G", "rejected": "H"},
        {"prompt": "Ana: Hi!\nBen: Hello!\nAna: Who?", "chosen": "Ana", "rejected": "Ben"},
    ],
)
def test_other_marks_in_a_text_are_part_of_it(row, tmp_path):
    (item,) = load(lines(tmp_path, row), language="en")
    assert (item.prompt, item.chosen.text) == (row["prompt"], row["chosen"])


@pytest.mark.parametrize("asks", ["H:", "U:"])
def test_one_turn_before_an_answer_that_begins_with_a_role_is_refused(asks, tmp_path):
    row = {"prompt": f"{asks} {HOW}", "chosen": f"A: {BOTH}", "rejected": f"A: {WHISTLE}"}
    with pytest.raises(DataError, match="chosen: all answers begin with the role 'A:'"):
        load(lines(tmp_path, row))


@pytest.mark.parametrize("asks", ["[Gast]", "Question:", "**Q:**"])
def test_answers_that_hold_the_question_and_a_second_turn_are_refused(asks, tmp_path):
    before = f"{asks} {HOW}\n[Wirt] "
    row = {"prompt": HOW, "chosen": f"{before}{BOTH}", "rejected": f"{before}{WHISTLE}"}
    with pytest.raises(DataError) as raised:
        load(lines(tmp_path, row))
    assert [(one.line, one.field) for one in raised.value.problems] == [(1, "chosen")]


@pytest.mark.parametrize(
    ("prompt", "before", "after", "field"),
    [
        (HOW, "", "<|eot_id|>", "chosen"),
        (HOW, "", " </s>", "chosen"),
        (HOW, f"<｜User｜>{HOW}<｜Assistant｜>", "", "chosen"),
        (HOW, f"{HOW} ", "", "chosen"),
        (f"[INST] {HOW} [/INST]", "", "", "prompt"),
        (f"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{HOW}", "", "", "prompt"),
        (f"Below is a task.\n\n### Task:\n{HOW}\n\n### Response:", "", "", "prompt"),
    ],
)
def test_marks_of_a_models_template_and_repeated_questions_are_refused(
    prompt, before, after, field, tmp_path
):
    answers = {"chosen": f"{before}{BOTH}{after}", "rejected": f"{before}{WHISTLE}{after}"}
    with pytest.raises(DataError) as raised:
        load(lines(tmp_path, {"prompt": prompt} | answers))
    assert [(one.line, one.field) for one in raised.value.problems] == [(1, field)]


@pytest.mark.parametrize("name", ["twice.jsonl", "twice.json"])
def test_an_object_with_a_name_twice_is_refused(name, tmp_path):
    path = tmp_path / name
    line = '{"prompt": "How?", "chosen": "a", "chosen": "b", "rejected": "c"}'
    path.write_text(line if name.endswith("l") else f"[{line}]")
    with pytest.raises(CarbError, match="chosen: stands twice"):
        load(path)


@pytest.mark.parametrize("field", ["prompt", "chosen"])
def test_a_message_with_a_text_twice_is_refused(field, tmp_path):
    row = {"prompt": "How?", "chosen": "a", "rejected": "b"}
    path = tmp_path / "messages.jsonl"
    message = '[{"role": "assistant", "content": "a", "content" : "b"}]'
    path.write_text(json.dumps(row | {field: "HERE"}).replace('"HERE"', message))
    with pytest.raises(DataError, match=r"messages\.jsonl:1: content: stands twice"):
        load(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.json"])
def test_a_pointer_in_place_of_a_file_is_refused(name, tmp_path):
    """A clone without Git LFS holds such pointers."""
    path = tmp_path / name
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n")
    with pytest.raises(CarbError, match=f"{name}.*git lfs pull"):
        load(path)


def test_options_with_a_letter_twice_are_refused(tmp_path):
    path = tmp_path / "options.jsonl"
    path.write_text('{"question": "How?", "options": {"A": "a", "A": "b"}, "answer": "A"}')
    with pytest.raises(DataError, match="A: stands twice"):
        load(path)


def test_a_text_with_a_nul_byte_is_refused(tmp_path):
    with pytest.raises(DataError, match=r":1: chosen: .*NUL"):
        load(lines(tmp_path, {"prompt": HOW, "chosen": "With bo\0th.", "rejected": WHISTLE}))


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.jsonl"])
def test_a_file_in_another_encoding_is_refused_with_utf_8(name, encoding, tmp_path):
    row = {"prompt": "Wie grüßt man?", "chosen": "Höflich.", "rejected": "Laut."}
    text = json.dumps(row, ensure_ascii=False)
    if name == "a.csv":
        text = "prompt,chosen,rejected\nWie grüßt man?,Höflich.,Laut.\n"
    (tmp_path / name).write_bytes((f"[{text}]" if name == "a.json" else text).encode(encoding))
    with pytest.raises(CarbError, match="UTF-8"):
        load(tmp_path / name)


def test_a_link_to_a_file_of_the_same_folder_is_refused(tmp_path):
    lines(tmp_path, {"prompt": HOW, "chosen": BOTH, "rejected": WHISTLE})
    (original,) = tmp_path.iterdir()
    (tmp_path / "z.jsonl").symlink_to(original)
    with pytest.raises(CarbError, match=rf"z\.jsonl and .*{original.name} are one file"):
        load(tmp_path)


def test_other_files_of_a_folder_are_named_and_hidden_ones_are_not_read(tmp_path):
    text = "prompt,chosen,rejected\nq?,bow,kick\n"
    for name in ("a.csv", "old.xls", ".b.csv", "~$a.xlsx", "._a.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = load(tmp_path)
    assert [item.chosen.text for item in found] == ["bow"]
    (note,) = [note for note in found.notes if "not read" in note]
    assert "old.xls" in note
    assert "~$a.xlsx" not in note


def test_a_number_of_single_precision_is_the_text_that_people_wrote(tmp_path):
    table = {"prompt": [HOW], "chosen": pl.Series([0.1], dtype=pl.Float32), "rejected": ["0.5"]}
    pl.DataFrame(table).write_parquet(tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet")[0].chosen.text == "0.1"


def test_a_workbook_with_a_password_and_other_spreadsheets_say_what_to_save(excel, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    (tmp_path / "b.ods").write_bytes(b"PK")
    for name, cause in (("a.xlsx", "password"), ("b.ods", "unknown file type")):
        with pytest.raises(CarbError, match=rf"{name}.*{cause}.*\.xlsx or .*CSV UTF-8"):
            load(tmp_path / name)


def test_a_cell_without_a_reading_counts_only_where_its_column_is_read(book):
    def show(made):
        for cell in ("E2", "E3"):
            made["S"][cell].number_format = '"x"#,##0.00'

    rows = [
        [*HEAD, "fee"],
        ["When?", "now", "never", "A", 20.5],
        ["Where?", "here", "away", "B", 3],
    ]
    found = load(book(("S", rows), change=show))
    assert [item.chosen.text for item in found] == ["now", "away"]
    assert any("Not read: fee (2 of 2 rows filled)" in note for note in found.notes)


def test_a_heading_that_is_repeated_among_the_rows_is_refused(tmp_path):
    table = "question,right,wrong\nWho?,guest,host\n"
    with pytest.raises(DataError, match=r"a\.csv:3: repeats the heading"):
        load(cells(tmp_path, table + table))


def test_the_rows_that_describe_a_survey_are_not_read(tmp_path):
    heading = (
        "ResponseId,prompt,chosen,rejected\nResponse ID,Write a question,Write,Write one more\n"
    )
    ids = ",".join(f'"{{""ImportId"":""QID{n}""}}"' for n in range(4))
    found = load(cells(tmp_path, f"{heading}{ids}\nR_1,Who?,guest,host\n"))
    assert [item.prompt_text for item in found] == ["Who?"]
    assert any("describe the survey" in note for note in found.notes)


@pytest.mark.parametrize("mark", ["-", "–", "—", "n.a.", "N. A."])
def test_a_dash_for_no_option_is_no_option(tmp_path, mark):
    table = f"question,A,B,C,answer\nWho?,guest,host,{mark},A\n"
    with pytest.raises(DataError, match=f"options: holds '{mark}', which stands for a missing"):
        load(cells(tmp_path, table))


def test_files_about_a_folder_are_named_and_not_read(tmp_path):
    for name in ("dataset_infos", "croissant", "dataset_dict"):
        (tmp_path / f"{name}.json").write_text('{"splits": ["train"]}')
    with pytest.raises(CarbError, match=r"holds no table; carb reads .*\.parquet"):
        load(tmp_path)
    cells(tmp_path, "question,right,wrong\nWho?,guest,host\n")
    found = load(tmp_path)
    assert len(found) == 1
    assert any("3 more files not read" in note for note in found.notes)


def test_a_table_may_be_called_state(tmp_path):
    for name in ("city", "state"):
        row = {"question": f"Who greets first in the {name}?", "right": "guest", "wrong": "host"}
        (tmp_path / f"{name}.json").write_text(json.dumps([row]), encoding="utf-8")
    assert len(load(tmp_path)) == 2


def test_text_of_two_bytes_a_letter_without_a_mark_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("question,right,wrong\nWho?,guest,host\n".encode("utf-16-le"))
    with pytest.raises(CarbError, match="is not text in UTF-8"):
        load(path)


@pytest.mark.parametrize(
    "marked",
    [
        "*Paris",
        "**Paris**",
        "__Paris__",
        "Paris*",
        "✓ Paris",
        "Paris ✔",
        "[x] Paris",
        "(x) Paris",
        "-> Paris",
        "=Paris",
        "+ Париж",
        "*7",
        "Paris (correct)",
        "Paris (the correct answer)",
        "Paris <-- correct",
        "Paris - richtig",
        "巴黎（正确）",
        "باريس (صحيح)",
        "<b>Paris</b>",
        "*A) Paris",
        "Paris&nbsp;",
        "Paris &amp; Lyon",
        "Assistant: Paris",
        "Correct answer: Paris",
        "Paris|1",
        "Paris ✔\ufe0f",
        "Париж +",
        "Paris √",
        ">> Paris",
        "👉 Paris",
        "＊パリ",
        "Paris (right answer)",
        "Paris [answer]",
        "パリ（答え）",
        "Париж (ответ)",
    ],
)
def test_an_option_that_alone_has_a_mark_is_refused(tmp_path, marked):
    rows = [
        {"question": "Which city?", "choices": ["Oslo", marked, "Rome"], "answer": "B"},
        {"prompt": "Which city?", "chosen": marked, "rejected": "Rome"},
    ]
    for row in rows:
        with pytest.raises(DataError, match=r"a\.jsonl:1: options: not all have the mark"):
            load(lines(tmp_path, row))


@pytest.mark.parametrize(
    "options",
    [
        ["*p", "&p", "p"],
        ["*Paris*", "*Rome*", "*Oslo*"],
        ["the left hand (left)", "the right hand (right)", "none"],
        ["[x]", "[y]", "[z]"],
        ["a*b", "a* b", "*"],
        ["+5", "-5", "5"],
        ["Na+", "Cl-", "the C++ language"],
        ["√2", "2", "> 2"],
        ["the Rosetta Stone - key to all", "a lock", "a door"],
        ["&lt;", "&gt;", "&amp;"],
        ["correct", "wrong", "both"],
        ["x" * 201, "✓ yes", "no"],
        ["**Yes** and *no*", "no", "maybe"],
    ],
)
def test_other_marks_of_options_are_part_of_them(tmp_path, options):
    (item,) = load(lines(tmp_path, {"question": "Which?", "choices": options, "answer": "B"}))
    assert {*item.texts} == {*options}


@pytest.mark.parametrize(
    "cell",
    [
        "<ol><li>Kiss</li><li>Shout</li></ol>",
        '<ul class="a">\n<li>Kiss</li></ul>',
        "{kiss,shout}",
        '{"With a kiss.",shout}',
        '{shout,"With a kiss."}',
    ],
)
def test_a_list_as_html_or_a_database_writes_it_is_refused(tmp_path, cell):
    with pytest.raises(DataError, match=r"rejected: holds a list as HTML"):
        load(lines(tmp_path, {"prompt": "How?", "chosen": "Bow", "rejected": cell}))


@pytest.mark.parametrize(
    "cell", ["{a, b}", "{1,2}", "{HH,HT}", "{x} and {y}", "<p>Kiss</p>", "[a, b]"]
)
def test_braces_of_other_texts_stay(tmp_path, cell):
    (item,) = load(lines(tmp_path, {"prompt": "How?", "chosen": "Bow", "rejected": cell}))
    assert item.rejected[0].text == cell


def test_characters_as_html_writes_them_are_named(tmp_path):
    row = {"question": "What &amp; who?", "A": "we", "B": "they", "answer": "A"}
    dataset = load(lines(tmp_path, row, row | {"question": "Who?"}), language="en")
    assert dataset.notes[0] == "1 rows hold characters as HTML writes them (&amp;), which stay."


@pytest.mark.parametrize(
    "passages",
    [
        [["Japan", "Guests bow."], ["Oman", "Hosts pour."]],
        [["Japan", ["Guests bow."]], ["Oman", ["Hosts pour."]]],
        ["Japan", "Guests bow.", "Oman", "Hosts pour."],
    ],
)
@pytest.mark.parametrize("name", ["context", "documents", "passages"])
def test_a_list_of_passages_goes_before_the_question(tmp_path, name, passages):
    row = {"question": "Who greets?", name: passages, "A": "guest", "B": "host", "answer": "A"}
    (item,) = load(lines(tmp_path, row))
    assert item.prompt == "Japan\n\nGuests bow.\n\nOman\n\nHosts pour.\n\nWho greets?"


def test_a_history_of_pairs_is_turns_and_any_other_list_is_refused(tmp_path):
    row = {"prompt": "Who?", "history": [["Hi", "Hello"]], "chosen": "we", "rejected": "they"}
    (item,) = load(lines(tmp_path, row | {"context": "A text."}))
    contents = [(turn.role, turn.content) for turn in item.prompt]
    assert contents == [("user", "Hi"), ("assistant", "Hello"), ("user", "A text.\n\nWho?")]
    for history in (["Hi", "Hello"], [["Hi", None]], [["Hi"]]):
        with pytest.raises(DataError, match="history: must be a text"):
            load(lines(tmp_path, row | {"history": history}))


def test_a_history_alone_is_the_question(tmp_path):
    turns = [{"role": "user", "content": "Who?"}]
    (item,) = load(lines(tmp_path, {"history": turns, "chosen": "we", "rejected": "they"}))
    assert item.prompt_text == "Who?"


@pytest.mark.parametrize("key", ["B", "2"])
@pytest.mark.parametrize("order", ["i iii ii", "iii ii i"])
def test_roman_labels_in_another_order_are_refused(tmp_path, order, key):
    labels = order.split()
    by_label = {label: f"text {label}x" for label in labels}
    listed = [f"{label}. a text {number}x" for number, label in enumerate(labels)]
    for options in (by_label, listed):
        row = {"question": "Which?", "options": options, "answer": key}
        other = row | {"answer": "3" if key == "2" else "C"}
        with pytest.raises(DataError, match="order"):
            load(lines(tmp_path, row, other))


def test_roman_labels_in_order_are_taken_off(tmp_path):
    options = ["i. Paris", "ii. Rome", "iii. Oslo"]
    (item,) = load(lines(tmp_path, {"question": "Which?", "options": options, "answer": "B"}))
    assert (item.chosen.text, len(item.rejected)) == ("Rome", 2)


def test_an_i_that_may_be_a_letter_or_a_roman_number_is_refused(tmp_path):
    options = [f"text {number}x" for number in range(10)]
    row = {"question": "Which?", "options": options, "answer": "i"}
    with pytest.raises(CarbError, match="I for 1"):
        load(lines(tmp_path, row))
    first, second = load(lines(tmp_path, row, row | {"answer": "B"}))
    assert (first.chosen.text, second.chosen.text) == ("text 8x", "text 1x")


def test_latin_keys_of_cyrillic_headings_that_look_the_same_are_refused(tmp_path):
    head = "вопрос,А,Б,В,ответ\n"
    with pytest.raises(CarbError, match="look the same in Latin and Cyrillic"):
        load(cells(tmp_path, f"{head}Где?,тут,там,дома,B\n"))
    rows = f"{head}Где?,тут,там,дома,B\nКто?,он,она,оно,C\n"
    first, second = load(cells(tmp_path, rows), language="ru")
    assert (first.chosen.text, second.chosen.text) == ("там", "оно")


def test_columns_of_different_lengths_are_refused(tmp_path):
    path = tmp_path / "a.json"
    columns = {"prompt": ["Who?", "Why?"], "chosen": ["we"], "rejected": ["they", "no"]}
    path.write_text(json.dumps(columns), encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json:2: chosen: is empty"):
        load(path)


def test_a_page_of_the_hubs_viewer_is_named(tmp_path):
    path = tmp_path / "a.json"
    row = {"prompt": "Who?", "chosen": "we", "rejected": "they"}
    page = {"features": [], "rows": [{"row_idx": 0, "row": row}], "partial": False}
    path.write_text(json.dumps(page | {"num_rows_total": 1}), encoding="utf-8")
    assert not load(path, language="en").notes
    path.write_text(json.dumps(page | {"num_rows_total": 2000}), encoding="utf-8")
    (note,) = load(path, language="en").notes
    assert note == "It is a page of the Hub's viewer: 1 of 2000 rows."
    path.write_text(json.dumps(page | {"truncated": True}), encoding="utf-8")
    (note,) = load(path, language="en").notes
    assert note == "Not read: truncated, which stands beside the rows."


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [
        ("B) bow", ["A) wave", "C) kiss"]),
        ("1. bow", ["2. wave"]),
        ("Answer 2: bow", ["Answer 1: wave"]),
    ],
)
def test_letters_of_answers_in_pairs_are_refused_unless_the_question_has_them(
    tmp_path, chosen, rejected
):
    row = {"prompt": "How do people greet?", "chosen": chosen, "rejected": rejected}
    with pytest.raises(DataError, match="options: carry letters or numbers of their own"):
        load(lines(tmp_path, row))
    listed = "\n".join(["How do people greet?", *sorted([chosen, *rejected])])
    (item,) = load(lines(tmp_path, row | {"prompt": listed}))
    assert item.chosen.text == chosen


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [("1. Bow. 2. Smile.", "1. Wave."), ("A good bow", "B. Russell"), ("1.5 kg", "2.5 kg")],
)
def test_other_beginnings_of_answers_in_pairs_stay(tmp_path, chosen, rejected):
    (item,) = load(lines(tmp_path, {"prompt": "What?", "chosen": chosen, "rejected": rejected}))
    assert {*item.texts} == {chosen, rejected}


def test_numbered_answers_of_one_line_in_a_singular_column_are_named(tmp_path):
    row = {"prompt": "How?", "chosen": "Bow", "rejected": "1) kiss 2) shout 3) run"}
    (note,) = load(lines(tmp_path, row), language="en").notes
    assert note.startswith("Each text of rejected counts as one answer")


def test_a_list_beside_columns_of_options_is_named(tmp_path):
    row = {"question": "Which?", "A": "Rome", "B": "Paris", "answer": "A"}
    dataset = load(lines(tmp_path, row | {"options": ["Paris", "Rome"]}), language="en")
    assert dataset.notes == ("Not read: options (1 of 1 rows filled).",)
    assert next(iter(dataset)).chosen.text == "Rome"


@pytest.mark.parametrize(
    ("row", "unread"),
    [
        ({"question": "Which?", "answers": ["we", "they"], "answer": "B"}, "correct"),
        (
            {
                "prompt": "Which?",
                "choices": [{"text": "we", "is_correct": 1}, {"text": "they", "is_correct": 0}],
            },
            "question",
        ),
    ],
)
def test_a_second_column_for_what_another_column_holds_is_named(tmp_path, row, unread):
    dataset = load(lines(tmp_path, row | {unread: "A"}), language="en")
    assert dataset.notes[1] == f"Not read: {unread} (1 of 1 rows filled)."


@pytest.mark.parametrize("marks", [[0, 0, 0], [1, 1, 1], [1, 0, 1], "[0, 0, 0]"])
def test_marks_of_options_are_no_peoples_votes(tmp_path, marks):
    row = {"question": "Which?", "choices": ["we", "they", "you"], "label": marks}
    other = row | {"label": [0, 1, 0], "question": "Which one?"}
    with pytest.raises(DataError, match="answer: holds numbers of several options"):
        load(lines(tmp_path, row, other))


@pytest.mark.parametrize(("letters", "right"), [("أبتث", "ت"), ("イロハニ", "ハ"), ("أبجد", "ج")])
def test_letters_may_stand_in_another_order_of_their_script(tmp_path, letters, right):
    texts = ["we", "they", "you", "all"]
    row = {"question": "Which?", "answer": right}
    (columns,) = load(lines(tmp_path, row | dict(zip(letters, texts, strict=True))))
    listed = [f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True)]
    (options,) = load(lines(tmp_path, row | {"options": listed}))
    assert columns.chosen.text == options.chosen.text == "you"


@pytest.mark.parametrize("heading", ["Ans", "Answer?", "Ans."])
def test_headings_may_be_short_or_ask(tmp_path, heading):
    (item,) = load(lines(tmp_path, {"Question": "Which?", "A": "we", "B": "they", heading: "B"}))
    assert item.chosen.text == "they"


def test_a_domain_that_is_none_is_refused_for_tables_and_sets(tmp_path):
    table = lines(tmp_path, {"prompt": "Who?", "chosen": "we", "rejected": "they"})
    sets = tmp_path / "sets.jsonl"
    load(table, language="en").save(sets)
    for path in (table, sets):
        with pytest.raises(CarbError, match="--domain: 'food' is none; there are commonsense"):
            load(path, domain="food")
        (item,) = load(path, domain="Values")
        assert item.domain == "values"


@pytest.mark.parametrize("options", [[], "", {"text": [], "label": []}])
def test_a_row_without_options_is_refused(tmp_path, options):
    row = {"question": "Which?", "choices": ["we", "they"], "answer": "A"}
    with pytest.raises(DataError, match=r"a\.jsonl:2: answer: 'A' is none of the options"):
        load(lines(tmp_path, row, row | {"choices": options}))
