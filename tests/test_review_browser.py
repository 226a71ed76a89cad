"""The review page in a real browser: phone, keyboard, Arabic, no connection, hostile texts."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from browsers import WATCHED, artefacts, axe_finds, started
from carb_cli.review.page_parts import texts
from carb_data import BonSet, Dataset
from review_server import Server

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright; `nox -s browser` installs it"
)
pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 2'>",
    '<a href="javascript:window.hacked = 3">click</a> {{ 7 * 7 }} ${7 * 7} <!-- &lt;b&gt;',
    "abc\u202egnp.exe\u2066x\u200f y\x07\x1b[31m",
    "w" * 5000,
]


class Review:
    """A served review, whose reviewers are used one after another."""

    def __init__(self, out: Path, *arguments: str, **options: Any) -> None:
        self.out = out
        self.server = Server(out, *arguments, **options)
        self.links = iter(self.server.links)

    def start_again(self) -> None:
        """On the same port, after it was killed."""
        port = self.server.url.rstrip("/").rpartition(":")[2]
        self.server = Server(self.out, "--invite", "12", "--port", port)

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.out)) as db:
            return db.execute(query).fetchall()

    def answers(self, name: str) -> list[dict[str, Any]]:
        query = (
            "SELECT payload FROM assignment JOIN reviewer ON reviewer.id = reviewer "
            f"WHERE name = '{name}' AND payload IS NOT NULL ORDER BY assignment.id"
        )
        return [json.loads(row[0])["answer"] for row in self.rows(query)]


@pytest.fixture(scope="module")
def review(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Review]:
    made = Review(tmp_path_factory.mktemp("review") / "thai.reviews", "--invite", "12")
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started(sync_api) as made:
        yield made


@pytest.fixture
def device(browser: Any) -> Iterator[Callable[..., Any]]:
    """Makes a device of a reviewer; at the end nothing may have run that should not, and nothing
    foreign been asked."""
    made: list[tuple[Any, list[str], list[str], str]] = []

    def open_(link: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": PHONE, "locale": "en"} | options)
        context.set_default_timeout(8000)
        context.add_init_script(WATCHED)
        trouble, asked = list[str](), list[str]()
        context.on("weberror", lambda error: trouble.append(str(error.error)))
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        made.append((page, trouble, asked, "/".join(link.split("/")[:3])))
        page.goto(link)
        page.locator("html[data-ready]").wait_for(state="attached")
        return page

    yield open_
    for page, trouble, asked, address in made:
        assert trouble == []
        assert all(url.startswith((address, "blob:")) for url in asked)
        assert page.evaluate("[window.hacked, window.violations]") == [None, []]
        page.context.close()


def begin(page: Any, name: str, language: str = "en") -> Any:
    """Choose a language, agree, and see the first item."""
    page.locator("select[name=language]").select_option(language)
    page.locator(f"html[lang={language}]").wait_for(state="attached")
    page.locator("input[name=agree]").check()
    page.locator("input[name=name]").fill(name)
    page.locator("button[type=submit]").click()
    page.locator("fieldset[data-token]").first.wait_for()
    return page


def fill(page: Any, best: int = 0) -> list[str]:
    """Pick the answer at a place; the others are wrong here. Gives the tokens in the order of the
    screen."""
    cards = page.locator("fieldset[data-token]")
    for place in range(cards.count()):
        cards.nth(place).locator(f"input[value={'best' if place == best else 'wrong'}]").check()
    return [card.get_attribute("data-token") for card in cards.all()]


def save(page: Any) -> None:
    before = page.locator("#progress").inner_text()
    page.locator("button[type=submit]").click()
    page.wait_for_function(
        "(before) => document.querySelector('#progress').innerText !== before", arg=before
    )


def all_sent(page: Any) -> None:
    page.locator("#sending", has_text="All answers are saved.").wait_for()


def asked_for(page: Any) -> str:
    """What the browser says is missing, at the field where it has put the focus."""
    sync_api.expect(page.locator(":focus")).to_be_in_viewport()
    return page.locator(":focus").evaluate("(field) => field.validationMessage")


def test_from_the_link_to_the_first_answer_on_a_phone(
    device: Any, review: Review, tmp_path: Path
) -> None:
    page = device(next(review.links))
    assert "#" not in page.url  # the address bar does not give the link away
    assert (page.locator("html").get_attribute("lang"), page.title()) == (
        "th",
        texts("th")["title"],
    )
    page.locator("button[type=submit]").click()
    assert asked_for(page) == texts("th")["missing_agree"]
    begin(page, "phone")
    assert re.fullmatch(r"Answered: 0 of \d+", page.locator("#progress").inner_text())
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    small = (
        "(e) => e.filter((x) => x.offsetParent && x.getBoundingClientRect().height < "
        "44).map((x) => x.outerHTML)"
    )
    assert page.locator("button, label.choice, select, summary").evaluate_all(small) == []
    shown = fill(page, best=2)
    page.locator("fieldset[data-token] >> nth=1 >> input[value=depends]").check()
    page.locator("button[type=submit]").click()
    assert asked_for(page) == "Please say on what it depends."
    page.get_by_role("checkbox", name="on the region").check()
    page.get_by_role("textbox", name="Which one?").fill("only in the north")
    page.screenshot(path=artefacts(tmp_path) / "review-phone.png", full_page=True)
    save(page)
    all_sent(page)
    (answer,) = review.answers("phone")
    assert answer["opinions"][shown[2]]["verdict"] == "best"
    said = {
        "verdict": "depends",
        "on": ["region"],
        "which": "only in the north",
        "natural": True,
        "better": "",
    }
    assert answer["opinions"][shown[1]] == said
    stored = [
        json.loads(row[0])
        for row in review.rows("SELECT payload FROM assignment WHERE payload IS NOT NULL")
    ]
    assert any(one["shown"] == shown and one["active_ms"] > 0 for one in stored)


def test_the_first_page_is_one_sheet_of_paper(device: Any, review: Review) -> None:
    """A button alone was printed on a second one."""
    page = device(next(review.links))
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert len(sheets) == 1


def test_by_keyboard_alone(device: Any, review: Review) -> None:
    page = device(next(review.links), viewport=DESKTOP)
    page.locator("select[name=language]").select_option("en")
    page.locator("html[lang=en]").wait_for(state="attached")
    page.locator("h1").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # agree
    page.keyboard.press("Tab")
    page.keyboard.type("keyboard")
    page.keyboard.press("Enter")
    page.locator("fieldset[data-token]").first.wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H1"  # a screen reader begins here
    for keys in (["Space"], *[["ArrowRight", "ArrowRight"]] * 3):  # best; past "right" to "wrong"
        page.keyboard.press("Tab")
        for key in keys:
            page.keyboard.press(key)
        page.keyboard.press("Tab")  # past "does not read naturally"
    page.keyboard.press("Enter")
    all_sent(page)
    verdicts = [
        opinion["verdict"] for opinion in review.answers("keyboard")[0]["opinions"].values()
    ]
    assert sorted(verdicts) == ["best", "wrong", "wrong", "wrong"]


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("ar", "light"), ("th", "dark")])
def test_nothing_for_axe_to_find(
    device: Any, review: Review, language: str, scheme: str, tmp_path: Path
) -> None:
    size = DESKTOP if language == "en" else PHONE
    page = device(next(review.links), viewport=size, color_scheme=scheme)
    page.locator("select[name=language]").select_option(language)
    page.locator(f"html[lang={language}]").wait_for(state="attached")
    assert page.locator("html").get_attribute("dir") == ("rtl" if language == "ar" else "ltr")
    assert axe_finds(page) == []
    begin(page, f"axe {language}", language)
    page.locator("details summary").first.click()
    page.locator("input[value=depends]").first.check()
    assert axe_finds(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    if language == "ar":  # the Thai text keeps its own direction within the Arabic page
        assert page.locator(".question").evaluate("(e) => getComputedStyle(e).direction") == "ltr"
        assert page.locator("fieldset legend").first.bounding_box()["x"] > size["width"] / 2
    page.screenshot(path=artefacts(tmp_path) / f"review-{language}-{scheme}.png")


def test_answers_survive_a_lost_connection_and_a_reload_without_one(
    device: Any, review: Review
) -> None:
    page = begin(device(next(review.links)), "offline")
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    fill(page)
    save(page)
    all_sent(page)
    page.context.set_offline(True)
    # a page that is loaded anew may send before the browser is told again that it is offline
    review.server.kill()
    for _ in range(3):
        fill(page)
        save(page)
    page.locator("#sending", has_text="Not yet sent: 3").wait_for()
    page.get_by_role("button", name="Back").click()
    fill(page, best=1)
    page.locator("button[type=submit]").click()
    page.locator("input[value=best]:checked").wait_for(state="detached")
    assert "Not yet sent: 3" in page.locator("#sending").inner_text()
    page.locator("fieldset[data-token] input[value=depends]").first.check()  # a draft
    page.reload()
    page.locator("fieldset[data-token] input[value=depends]:checked").wait_for()
    assert "Not yet sent: 3" in page.locator("#sending").inner_text()
    stranger, link = page.context.new_page(), next(review.links)
    stranger.goto(link)
    stranger.locator("h1", has_text=texts("en")["offline"]).wait_for()
    assert stranger.url == link, (
        "another person's link shows nothing of this one's, and is there for another try"
    )
    stranger.close()
    assert len(review.answers("offline")) == 1
    review.start_again()
    page.context.set_offline(False)
    page.evaluate("dispatchEvent(new Event('online'))")
    all_sent(page)
    assert len(review.answers("offline")) == 4


def test_two_windows_lose_no_answer_and_two_reviews_on_one_host_share_no_person(
    device: Any, review: Review
) -> None:
    page = begin(device(next(review.links), service_workers="block"), "windows")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator("fieldset[data-token]").first.wait_for()
    page.context.set_offline(True)
    for best, window in enumerate([page, other]):
        fill(window, best)
        window.locator("button[type=submit]").click()
        window.locator("input[value=best]:checked").wait_for(state="detached")
        window.locator("#sending", has_text="Not yet sent: 1").wait_for()
    page.context.set_offline(False)
    for window in (page, other):
        window.evaluate("dispatchEvent(new Event('online'))")
    page.get_by_role("button", name="The one from here").click()
    all_sent(other)
    found = (
        "SELECT revision FROM assignment JOIN reviewer ON reviewer.id = reviewer WHERE name = "
        "'windows' AND payload"
    )
    assert review.rows(f"{found} IS NOT NULL") == [(2,)], "both answers, each once"
    page.route(
        "**/2/*",
        lambda one: one.fulfill(response=page.request.get(one.request.url.replace("/2/", "/"))),
    )
    page.goto(f"{page.url}2/")
    page.locator("h1", has_text=texts("en")["offline"]).wait_for()


LONG_ANSWERS = """() => {
  Storage.prototype.setItem = () => { throw new Error("the disk is full"); };
  const long = "ก".repeat(2000);
  const opinion = (place) => ({ verdict: place ? "wrong" : "best", natural: false, better: long });
  for (const { id, shown } of open_items()) {
    const opinions = Object.fromEntries(shown.map((token, place) => [token, opinion(place)]));
    const answer = { status: "answered", opinions, comment: long };
    device.keep({ id: uuid(), item: id, shown, base: 0, answer, active_ms: 0 });
  }
  return send();
}"""


def test_what_fails_on_the_way_costs_no_link_and_no_answer(device: Any, review: Review) -> None:
    link = next(review.links)
    page = device(f"{link}x")
    assert page.locator("h1").inner_text() == texts("en")["link_bad"]
    page.route(
        "**/api/enter", lambda route: route.fulfill(status=502)
    )  # a proxy without a server behind it
    page.goto(link)
    page.reload()
    page.locator("h1", has_text=texts("en")["offline"]).wait_for()
    assert page.url == link, "the link is still there for another try"
    page.unroute("**/api/enter")
    page.reload()
    begin(page, "trouble")
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.context.set_offline(True)
    page.locator("select[name=language]").select_option("ar")
    page.locator("h1", has_text=texts("ar")["pick_title"]).wait_for()
    fill(page)
    save(page)
    page.context.set_offline(False)
    page.reload()
    page.locator("h1", has_text=texts("en")["pick_title"]).wait_for()
    page.evaluate(LONG_ANSWERS)
    assert (
        page.locator("#sending").inner_text()
        == f"All answers are saved. {texts('en')['no_storage']}"
    )
    assert len(review.answers("trouble")) == page.evaluate("device.events().length") == 20
    page.context.clear_cookies()
    page.evaluate("() => { state.items = []; return next() }")
    assert page.locator("h1").inner_text() == texts("en")["session_over"], (
        "nobody is told that this is all"
    )


def of_texts(
    culture: str, language: str, prompt: str, texts: Sequence[str], source: str = "x"
) -> BonSet:
    """A set of answers, of which the first is right."""
    answers = [
        {"id": f"r{n}", "text": text, "role": "rejected" if n else "chosen", "language": language}
        for n, text in enumerate(texts)
    ]
    place = {
        "id": f"<b>{culture}",
        "culture": culture,
        "domain": "values",
        "language": language,
        "prompt": prompt,
    }
    provenance = {"source": source, "license": "x", "method": "authored"}
    return BonSet.model_validate(place | {"responses": answers, "provenance": provenance})


def served(folder: Path, *sets: BonSet) -> Review:
    Dataset(sets).save(folder / "data.jsonl")
    return Review(
        folder / "a.reviews", "--invite", "1", data=str(folder / "data.jsonl"), cultures=()
    )


def test_what_differs_between_near_identical_answers_is_marked(device: Any, tmp_path: Path) -> None:
    """Thai and Chinese are written without spaces; answers that share little are not marked."""
    review = served(
        tmp_path,
        of_texts(
            "german",
            "en",
            "Q1",
            ["They eat it with a spoon at noon.", "They eat it with a fork at noon."],
        ),
        of_texts(
            "thai",
            "th",
            "Q2",
            [
                "คนไทยส่วนใหญ่กินข้าวด้วยช้อนทุกวัน",
                "คนไทยส่วนใหญ่กินข้าวด้วยมือทุกวัน",
            ],
        ),
        of_texts(
            "chinese", "zh", "Q3", ["北方人过年的时候吃饺子和鱼", "北方人过年的时候吃汤圆和鱼"]
        ),
        of_texts("japanese", "en", "Q4", ["Nobody asks that.", "Quite other words stand here."]),
    )
    page = begin(device(next(review.links)), "marks")
    seen = {}
    for _ in range(4):
        question = page.locator(".question").inner_text()
        cards = page.locator("fieldset[data-token]").all()
        seen[question] = {"".join(card.locator(".text mark").all_inner_texts()) for card in cards}
        page.get_by_role("button", name="I don't know").click()
        page.locator(".question", has_text=question).wait_for(state="detached")
    review.server.stop()
    assert seen == {
        "Q1": {"spoon", "fork"},
        "Q2": {"ช้อน", "มือ"},
        "Q3": {"饺子", "汤圆"},
        "Q4": {""},
    }


def test_hostile_texts_and_names_run_nothing(device: Any, tmp_path: Path) -> None:
    texts = [f"{text} {n}" for n, text in enumerate(HOSTILE)]
    review = served(tmp_path, of_texts("arabic", "ar", " ".join(HOSTILE), texts, HOSTILE[0]))
    page = begin(device(next(review.links)), HOSTILE[1])
    assert {
        c.strip() for c in page.locator("fieldset[data-token] .text").all_inner_texts()
    } != set()
    assert (
        page.locator(
            "fieldset[data-token] script, fieldset[data-token] img, fieldset[data-token] a"
        ).count()
        == 0
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    fill(page)
    page.locator("summary").first.click()
    page.locator("textarea[name=comment]").fill(HOSTILE[0])
    save(page)
    all_sent(page)
    review.server.stop()


def test_a_question_of_one_s_own_is_read_blind_by_a_second_person(
    device: Any, tmp_path: Path
) -> None:
    review = Review(tmp_path / "thai.reviews", "--invite", "2", "--beat", "baseline:length")
    page = begin(device(next(review.links)), "writer")
    page.get_by_role("button", name="Write a question").click()
    page.get_by_label("Question").fill(HOSTILE[0])
    page.get_by_label("The right answer here").fill(HOSTILE[2])
    page.get_by_role("button", name="Save the question").click()
    assert asked_for(page) == "Please write the question and two different answers."
    page.reload()
    page.get_by_role("button", name="Write a question").click()
    assert page.get_by_label("Question").input_value() == HOSTILE[0], "a draft stays"
    page.get_by_label("A wrong answer").fill(HOSTILE[2] + " and longer")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.screenshot(path=artefacts(tmp_path) / "review-write.png", full_page=True)
    page.get_by_role("button", name="Save the question").click()
    page.locator(
        "[role=status]", has_text="The model was fooled: it prefers the wrong answer."
    ).wait_for()
    all_sent(page)
    assert re.fullmatch(r"Answered: 0 of \d+", page.locator("#progress").inner_text())
    assert axe_finds(page) == []
    page.context.set_offline(True)
    page.get_by_label("Question").fill("Which bread?")
    page.get_by_label("The right answer here").fill("brown bread")
    page.get_by_label("A wrong answer").fill("white")
    page.get_by_role("button", name="Save the question").click()
    page.locator("#sending", has_text="Not yet sent: 1").wait_for()
    page.context.set_offline(False)
    page.evaluate("dispatchEvent(new Event('online'))")
    all_sent(page)
    reader = begin(device(next(review.links)), "reader")
    seen = []
    for _ in range(2):
        seen.append(reader.locator(".question").inner_text())
        assert reader.locator("fieldset[data-token]").count() == 2
        fill(reader)
        save(reader)
    all_sent(reader)
    assert sorted(seen) == sorted([HOSTILE[0], "Which bread?"])
    assert len(review.answers("reader")) == 2
    page.get_by_role("button", name="To the questions").click()
    page.locator("fieldset[data-token]").first.wait_for()
    assert page.locator("fieldset[data-token]").count() == 4, "nobody is asked their own question"
    review.server.stop()


def test_a_person_is_asked_about_their_town_by_its_name(device: Any, tmp_path: Path) -> None:
    from carb_cli import main

    file = tmp_path / "review.html"
    command = ["review", "page", "--data", "carb-seed", "--culture", "thai", "--out", str(file)]
    assert main(command) == 0
    page = device(file.as_uri(), offline=True, accept_downloads=True)
    page.locator("select[name=lives]").select_option("TH-50-chom-thong")
    page.locator("select[name=knows]").select_option(["TH-84", "TH-63"])
    assert axe_finds(page) == []
    begin(page, "northerner")
    regions = set(page.evaluate("open_items().map((item) => item.region)"))
    assert {"", "TH-50", "TH-50-chom-thong", "TH-84", "TH-63"} >= regions > {""}
    assert page.evaluate("state.total") == page.evaluate("open_items().length")
    page.evaluate("present(open_items().find((item) => item.region === 'TH-50'))")
    asked = texts("en")["pick_title_in"].replace("{place}", "เชียงใหม่")
    assert page.locator("h1").inner_text() == asked
    with page.expect_download() as download:
        page.get_by_role("button", name=texts("en")["save_file"]).click()
    saved = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert saved["person"]["places"] == ["TH-50-chom-thong", "TH-63", "TH-84"]


def test_one_file_for_who_has_no_connection(device: Any, tmp_path: Path) -> None:
    """From the disk, without a request: answer, close, go on, save, and collect."""
    from carb_cli import main

    file = tmp_path / "review.html"
    assert (
        main(
            [
                "review",
                "page",
                "--data",
                "carb-seed",
                "--culture",
                "arabic-eg",
                "--out",
                str(file),
            ]
        )
        == 0
    )
    assert not any(word in file.read_text("utf-8") for word in ('"key"', "generator"))
    page = device(file.as_uri(), offline=True, accept_downloads=True)
    page.locator("html[dir=rtl]").wait_for(state="attached")  # the language of the sets
    assert axe_finds(page) == []
    page.reload()  # axe itself tries what the policy refuses
    begin(page, "by post", "ar")
    tokens = fill(page, best=1)
    save(page)
    page.get_by_role("button", name="لا أعرف").click()
    page.reload()  # as the next person on this device opens it
    still = page.get_by_role("button", name=texts("ar")["still_yes"].replace("{name}", "by post"))
    still.wait_for()
    begin(page, "another", "ar")
    assert "0" in page.locator("#progress").inner_text(), "the other person's answers are theirs"
    page.get_by_role("button", name="لا أعرف").click()
    page.reload()
    assert page.locator("#known button").count() == 2
    still.click()
    page.locator("#progress", has_text="2").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="احفظ إجاباتي في ملف").click()
    answers = tmp_path / "answers.json"
    download.value.save_as(answers)
    out = file.with_suffix(".reviews")
    for _ in range(2):
        assert main(["review", "collect", str(out), str(answers)]) == 0
    with closing(sqlite3.connect(out)) as db:
        found = [
            json.loads(row[0])["answer"]
            for row in db.execute("SELECT payload FROM assignment ORDER BY id")
        ]
        assert db.execute("SELECT name, language FROM reviewer").fetchall() == [("by post", "ar")]
    assert [one["status"] for one in found] == ["answered", "unknown"]
    assert found[0]["opinions"][tokens[1]]["verdict"] == "best"
