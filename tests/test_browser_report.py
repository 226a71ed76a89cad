"""The report in a real browser, from the disk: it works, asks nothing of the network, and runs
nothing hostile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from browsers import WATCHED, artefacts, axe_finds, started
from carb_cli import main
from carb_data import BonSet, Dataset, Provenance, Response, load
from carb_scorers import ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.judge import JudgeOptions
from carb_scorers.run import run
from carb_scorers.scorer import Presentation

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright; `nox -s browser` installs it"
)
pytestmark = pytest.mark.browser

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "</textarea></title></style><img src=x onerror='window.hacked = 3'>",
    '<a href="javascript:window.hacked = 4">click</a> [x](javascript:window.hacked=4)',
    "<svg onload=window.hacked=5><iframe src=javascript:window.hacked=5></iframe>",
    "{{ 7 * 7 }} {% raw %} ${7 * 7} <!-- ]]> --> &lt;b&gt; \\u003cscript\\u003e",
    "abc\u202egnp.exe\u2066x\u200f y\x07\x1b[31m",
    "x" * 1_000_000,
]


class Rude:
    """A scorer with a hostile name that likes the first candidate it is shown and says hostile
    things."""

    def __init__(self, name: str, kind: str = "judge") -> None:
        known = JudgeOptions().model_dump(mode="json")
        self.spec = ScorerSpec(name=name, kind=kind, model=name, revision="1", parameters=known)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return [
            ScoreResult(
                request_id=request.request_id,
                scores={c.id: -float(place) for place, c in enumerate(request.candidates)},
                rationale=(
                    f"I like {request.candidates[0].text[:200]} <script>window.hacked = 6</script>"
                ),
                presentations=tuple(
                    Presentation(
                        order=tuple(order), scores={key: -float(n) for n, key in enumerate(order)}
                    )
                    for order in (
                        [c.id for c in request.candidates],
                        [c.id for c in request.candidates[::-1]],
                    )
                ),
            )
            for request in requests
        ]

    async def aclose(self) -> None:
        pass


def hostile_set(number: int) -> BonSet:
    """Every text of it is hostile."""
    texts = [f"{HOSTILE[(number + i) % len(HOSTILE)]} {number} {i}" for i in range(5)]
    shared = {"language": "ar", "culture": "thai", "generator": HOSTILE[0]}
    origin = {
        "source": HOSTILE[0],
        "license": HOSTILE[2],
        "url": "javascript:window.hacked=7",
        "method": "authored",
    }
    responses = tuple(
        Response(id=f"r{i}", text=text, role="rejected" if i else "chosen", **shared)
        for i, text in enumerate(texts[1:])
    )
    return BonSet(
        id=f"{HOSTILE[number % 6]} {number}",
        culture="arabic",
        domain="values",
        topic=HOSTILE[2],
        language="ar",
        prompt=texts[0],
        responses=responses,
        provenance=Provenance(**origin),
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report on sets of the seed without mirrors, one on families, one on hostile texts, and a
    site."""
    folder = tmp_path_factory.mktemp("reports")
    singles = load("carb-seed").filter(lambda item: item.family is None)
    names = ["baseline:length", "baseline:random", "baseline:label"]
    hostile = Dataset(hostile_set(number) for number in range(24))
    others = [*names, Rude(HOSTILE[1]), Rude(HOSTILE[2], HOSTILE[0])]

    async def score() -> None:
        await run(singles, [*names, Rude("first")], folder / "seed", names=["carb-seed"])
        await run(hostile, others, folder / "hostile", names=HOSTILE[:3])

    anyio.run(score)
    mirrored = ["run", "--data", "carb-seed", "--limit", "60", "--scorer", *names[:2]]
    assert main([*mirrored, "--quiet", "--json", "--out", str(folder / "mirrored")]) == 0
    made = {name: folder / f"{name}.html" for name in ("mirrored", "seed", "hostile")}
    for name, path in made.items():
        assert main(["report", str(folder / name), "--html", str(path)]) == 0
    assert (
        main(
            [
                "results",
                "site",
                *(str(folder / name) for name in made),
                "--out",
                str(folder / "site"),
            ]
        )
        == 0
    )
    return made | {"site": folder / "site" / "index.html"}


@pytest.fixture(scope="module")
def browser(reports: dict[str, Path]) -> Iterator[Any]:
    """Started after the reports are made, since playwright's loop leaves no room for another."""
    with started(sync_api) as made:
        yield made


class Watched:
    """A page whose every request, error, dialog and violation of its policy is noted."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.trouble: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.add_init_script(WATCHED)

    def open(self, path: Path) -> Any:
        self.page.goto(path.as_uri())
        return self.page

    def ready(self, path: Path, *, folded: bool = False) -> Any:
        """The page when its script has done its work, with every section open unless it is to stay
        ``folded``."""
        page = self.open(path)
        page.locator("html[data-ready]").wait_for(state="attached")
        assert page.evaluate("document.documentElement.dataset.ready") == "yes", page.inner_text(
            "#fail-status"
        )
        if not folded:
            page.evaluate(
                "document.querySelectorAll('details.part').forEach((part) => { part.open = true; })"
            )
        return page


@pytest.fixture
def watched(browser: Any, reports: dict[str, Path]) -> Iterator[Watched]:
    """A watched page; at the end nothing may have happened that should not."""
    made = Watched(browser, viewport={"width": 1280, "height": 900})
    yield made
    assert made.trouble == []
    opened = {path.as_uri() for path in reports.values()}
    assert {url.partition("#")[0] for url in made.requests} <= opened
    assert made.page.evaluate("[window.hacked, window.violations]") == [None, []]
    made.context.close()


SETS = 5
"""Column of the number of sets in a table without families."""


def column(page: Any, table: str, index: int) -> list[str]:
    """The first line of each cell of a column."""
    cells = page.locator(f"{table} tbody tr:visible > :nth-child({index})").all_inner_texts()
    return [text.strip().partition("\n")[0] for text in cells]


def ranked(page: Any) -> list[str]:
    """The ranks of the table: chance, the surface floor and the home line have none."""
    return [rank for rank in column(page, "#leaderboard", 1) if rank]


def test_opens_from_disk_without_a_request(watched: Watched, reports: dict[str, Path]) -> None:
    page = watched.ready(reports["seed"], folded=True)
    assert "carb-seed" in page.title()
    assert watched.requests == [reports["seed"].as_uri()]
    assert page.locator("p.verdict").is_visible()
    assert page.locator("table.place tbody tr").count() == len(ranked(page)) == 4
    parts = page.locator("details.part")
    assert page.locator("details.part:not([open])").count() == parts.count()
    assert {"pairs", "floor", "groups", "sets", "methods"} <= set(
        parts.evaluate_all("all => all.map((one) => one.id)")
    )
    page.goto(f"{reports['seed'].as_uri()}#floor")
    sync_api.expect(page.locator("#floor")).to_have_attribute("open", "")


def test_the_policy_is_strict(watched: Watched, reports: dict[str, Path]) -> None:
    page = watched.ready(reports["seed"])
    policy = page.get_attribute("meta[http-equiv=Content-Security-Policy]", "content")
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )
    outcome = page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.hacked = 8';
          document.body.append(script);
          const image = document.createElement('img');
          image.src = 'https://example.org/x.png';
          document.body.append(image);
          return new Promise((done) => setTimeout(() => {
            try { eval('window.hacked = 9'); done('evaluated'); } catch { done('refused'); }
          }, 0));
        }"""
    )
    assert outcome == "refused"
    assert set(page.evaluate("window.violations.splice(0)")) >= {
        "script-src-elem",
        "script-src",
        "img-src",
    }
    watched.trouble.clear()  # the console says the same
    watched.requests.remove(
        "https://example.org/x.png"
    )  # asked for by this test, and refused by the policy


def test_the_failure_browser(watched: Watched, reports: dict[str, Path]) -> None:
    page = watched.ready(reports["seed"])
    page.select_option("#fail-scorer", "first")
    page.select_option("#fail-culture", label="arabic")
    page.select_option("#fail-domain", label="safety")
    found = int(page.inner_text("#fail-status").split()[0])
    assert page.locator("#set-list > details").count() == min(found, 20) > 0
    first = page.locator("#set-list > details").first
    question = first.locator("summary bdi").inner_text()
    first.locator("summary").press("Enter")
    answers = first.locator("ol.answers > li")
    sync_api.expect(answers).to_have_count(
        4
    )  # the browser tells of an opened element in a task of its own
    assert first.locator("li.right").count() == 1
    assert question.split("…")[0][:60] in first.locator(".prompt").inner_text(), (
        "a failure is named by its question"
    )
    row = first.locator("table.scores tbody tr", has_text="first")
    heads = first.locator("table.scores thead th").all_inner_texts()[2:]
    assert [head[0] for head in heads] == list("ABCD"), (
        "answers stand in the order in which they were given"
    )
    scores = dict(zip(heads, map(float, row.locator("td").all_inner_texts()[1:]), strict=True))
    right = next(head for head in heads if "✓" in head)
    assert first.locator("li.right .judged").inner_text().startswith(right[0])
    assert scores[right] < scores["A" if right[0] != "A" else "A ✓"] == max(scores.values()), (
        "it likes the first"
    )
    assert "question 2: its A is D" in first.locator(".beside .tag").inner_text(), (
        "its letters in the other order"
    )
    assert first.locator(".gloss").count() == 1
    first.locator("summary", has_text="What first was sent").click()
    said = first.locator("details blockquote").last.inner_text()
    assert question.split("…")[0][:60] in said
    assert first.locator("li.right .answer").inner_text() in said
    assert row.locator("td.pick.bad").count() == 1
    assert first.locator("table.scores tbody tr").count() == 4, "every scorer is shown beside it"
    assert first.locator(".beside blockquote").inner_text().startswith("I like")
    prompt = first.locator(".prompt")
    assert prompt.get_attribute("lang") == "ar"
    assert prompt.evaluate("element => getComputedStyle(element).direction") == "rtl"
    first.locator("a", has_text="Link to this set").click()
    sync_api.expect(page.locator("#set-list > details[open] ol.answers")).to_have_count(1)
    assert page.locator("#set-list > details").count() == 1, "a link shows its set alone"
    page.go_back()
    sync_api.expect(page.locator("#set-list > details")).to_have_count(min(found, 20))


def test_the_numbers_of_the_browser_are_those_of_the_report(
    watched: Watched, reports: dict[str, Path]
) -> None:
    page = watched.ready(reports["seed"])
    rows = {
        name: float(accuracy)
        for name, accuracy in zip(
            column(page, "#leaderboard", 2), column(page, "#leaderboard", 4), strict=True
        )
        if accuracy
    }
    sets = int(column(page, "#leaderboard", SETS)[0])
    for option in page.locator("#fail-scorer option").all():
        label = option.inner_text()
        if label.removesuffix(" gets it wrong") in rows:
            label = label.removesuffix(" gets it wrong")
            page.select_option("#fail-scorer", option.get_attribute("value"))
            lost = int(page.inner_text("#fail-status").split()[0])
            assert 100 * (sets - lost) / sets == pytest.approx(rows[label], abs=0.051)


def test_filters_offer_what_main_sets_have(watched: Watched, reports: dict[str, Path]) -> None:
    page = watched.ready(reports["mirrored"])
    page.select_option("#fail-scorer", "sets")
    page.select_option("#fail-sets", "main")
    offered = page.locator("#fail-culture option").evaluate_all(
        "all => all.map((one) => one.value)"
    )
    for value in offered:
        page.select_option("#fail-culture", value)
        assert not page.inner_text("#fail-status").startswith("0 of"), value


def test_hostile_texts_are_shown_and_run_nothing(
    watched: Watched, reports: dict[str, Path]
) -> None:
    page = watched.ready(reports["hostile"])
    page.select_option("#fail-scorer", "any")
    shown = ""
    while page.locator("#fail-more").is_visible():
        page.click("#fail-more")
    for details in page.locator("#set-list > details").all():
        details.locator("summary").click()
        sync_api.expect(details.locator("ol.answers")).to_have_count(1)
        shown += details.inner_text()
    for text in HOSTILE[:6]:
        assert text in shown
    assert (
        page.locator(
            "#set-list a:not([href^='#set=']), #set-list img, #set-list script, #set-list "
            "iframe, #set-list svg"
        ).count()
        == 0
    )
    assert page.locator("main a[href^='javascript']").count() == 0
    assert "U+202E" in shown
    assert "U+001B" in shown
    assert "\u202e" not in shown
    assert "characters are not in this file" in shown
    assert reports["hostile"].stat().st_size < 2_000_000, (
        "a million characters a text would be 24 times that"
    )
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), (
        "nothing widens the page"
    )


def test_the_heat_map_of_another_scorer_and_family(
    watched: Watched, reports: dict[str, Path]
) -> None:
    """What the page draws first is what its script draws for the same choice."""
    page = watched.ready(reports["mirrored"])
    drawn = "[...document.querySelectorAll('#heat .beaten')].map((one) => one.textContent.trim())"
    first, said = page.evaluate(drawn), page.inner_text("#heat-won")
    assert page.locator("#heat-scorer option:checked").inner_text() in said
    page.select_option("#heat-scorer", "1")
    assert page.evaluate(drawn) != first
    page.select_option("#heat-scorer", "0")
    assert (page.evaluate(drawn), page.inner_text("#heat-won")) == (first, said)
    options = page.locator("#heat-family option")
    names = options.evaluate_all("all => all.map((one) => one.value)")
    groups = page.locator("#heat-family optgroup")
    labels = groups.evaluate_all("all => all.map((one) => one.label)")
    assert labels == sorted(set(labels))
    assert all(re.fullmatch(r"[a-z-]+ · [a-z]+", label) for label in labels)
    assert groups.locator("option").count() == len(names)
    question = page.inner_text("#heat .question")
    page.select_option("#heat-family", names[-1])
    assert page.inner_text("#heat .question") != question
    with page.expect_download() as saved:
        page.click("#heat-save")
    assert "<svg" in Path(saved.value.path()).read_text("utf-8")


def test_the_site(watched: Watched, reports: dict[str, Path]) -> None:
    page = watched.open(reports["site"])
    assert page.locator("main > section").count() == 3
    link = page.locator("main a:not([download])").first
    target = link.evaluate("link => link.href")
    link.click()
    page.locator("html[data-ready=yes]").wait_for(state="attached")
    watched.requests.remove(target)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 390])
def test_looks(
    browser: Any, reports: dict[str, Path], tmp_path: Path, scheme: str, width: int
) -> None:
    """Axe finds nothing, contrast of every text included, neither folded nor open nor in the page
    of a set."""
    made = Watched(
        browser, viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True
    )
    page = made.ready(reports["mirrored"], folded=True)
    page.screenshot(path=artefacts(tmp_path) / f"first-{width}-{scheme}.png")
    letters = page.locator("#heat .answers")
    assert letters.evaluate("one => getComputedStyle(one).listStyleType") == "upper-alpha"
    if width == 1400:
        assert (
            page.evaluate("document.querySelector('#heat .answers').getBoundingClientRect().y")
            < 844
        )
    assert axe_finds(page) == []
    page = made.ready(reports["seed"])
    page.select_option("#fail-scorer", "any")
    page.locator("#set-list > details").nth(1).locator("summary").click()
    sync_api.expect(page.locator("#set-list .answers")).to_have_count(1)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width, (
        "the page itself does not scroll sideways"
    )
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 3 * 128) == (scheme == "light")
    page.screenshot(path=artefacts(tmp_path) / f"report-{width}-{scheme}.png", full_page=True)
    assert axe_finds(page) == []
    page.locator("#set-list a", has_text="Link to this set").click()
    page.screenshot(path=artefacts(tmp_path) / f"set-{width}-{scheme}.png")
    assert axe_finds(page) == []
    assert made.trouble == []
    made.context.close()


@pytest.mark.parametrize("name", ["seed", "mirrored"])
def test_the_first_chart_takes_the_width_of_a_phone(
    browser: Any, reports: dict[str, Path], name: str
) -> None:
    """Accuracy alone, without families, had half of it."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(reports[name].as_uri())
    right = page.evaluate(
        """Math.max(...[...document.querySelectorAll('.place tbody td')].map((cell) =>
          cell.getBoundingClientRect().right))"""
    )
    page.close()
    assert 350 < right <= 390


def test_works_without_scripts(browser: Any, reports: dict[str, Path]) -> None:
    made = Watched(browser, viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    page = made.open(reports["seed"])
    assert len(ranked(page)) == 4
    assert not page.locator("#fail-controls").is_visible()
    page.locator("#floor summary").click()
    assert page.locator("#floor table").first.is_visible()
    page.locator("#sets summary").click()
    assert "needs JavaScript" in page.inner_text("#sets")
    made.context.close()


def test_printed_on_a4_nothing_is_cut_off(browser: Any, reports: dict[str, Path]) -> None:
    """718 pixels are the width of A4 within Chromium's margins."""
    context = browser.new_context(viewport={"width": 718, "height": 1000})
    page = context.new_page()
    page.goto(reports["mirrored"].as_uri())
    page.wait_for_selector("html[data-ready]")
    page.evaluate("document.querySelectorAll('details.part').forEach((one) => one.open = true)")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    empty = page.evaluate(
        """[...document.querySelectorAll('h2, h3')].filter((head) => head.offsetHeight)
        .filter((head) => !(head.closest('summary') ?? head).nextElementSibling?.offsetHeight)
        .map((head) => head.textContent)"""
    )
    assert empty == []
    cut = page.evaluate(
        """[...document.querySelectorAll('svg text')].filter((text) => {
          const [word, frame] = [text, text.ownerSVGElement].map((one) =>
            one.getBoundingClientRect());
          return word.width && (word.right > frame.right + 1 || word.left < frame.left - 1);
        }).map((text) => text.textContent)"""
    )
    assert cut == []
    context.close()


def test_a_printed_table_begins_on_the_page_of_its_heading(
    browser: Any, reports: dict[str, Path]
) -> None:
    """A leaderboard of twenty rows more went whole to the second page, and left a third empty."""
    page = browser.new_page()
    page.goto(reports["mirrored"].as_uri())
    page.wait_for_selector("html[data-ready]")
    page.evaluate(
        """const row = document.querySelector('#leaderboard tbody tr');
        for (let more = 0; more < 20; more += 1) row.after(row.cloneNode(true));"""
    )
    first = page.pdf(format="A4", page_ranges="1")
    page.evaluate("document.querySelector('#leaderboard').style.visibility = 'hidden'")
    without = page.pdf(format="A4", page_ranges="1")
    page.close()
    assert len(first) > len(without)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_numbers_of_the_heat_map_stand_out(
    browser: Any, reports: dict[str, Path], scheme: str
) -> None:
    """4.5 to 1 is what WCAG asks of text of this size; axe does not look into drawings."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(reports["mirrored"].as_uri())
    page.locator("#heat-scorer").select_option(label="baseline:random")  # without ties
    paper, ink, fill, tones = page.evaluate(
        """[getComputedStyle(document.body).backgroundColor,
          getComputedStyle(document.querySelector('#heat .beaten')).fill,
          getComputedStyle(document.querySelector('#heat rect')).fill,
          [...document.querySelectorAll('#heat rect')].map((one) =>
            one.getAttribute('fill-opacity'))]"""
    )
    context.close()

    def rgb(text: str) -> list[float]:
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    def light(colour: list[float]) -> float:
        channels = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in (one / 255 for one in colour)
        ]
        return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2] + 0.05

    tone = max(map(float, tones))
    pairs = zip(rgb(fill), rgb(paper), strict=True)
    blend = [tone * one + (1 - tone) * other for one, other in pairs]
    low, high = sorted((light(blend), light(rgb(ink))))
    assert tone > 0.5
    assert high / low >= 4.5
