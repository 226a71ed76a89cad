"""Size and time of a first report, of five scorers on the seed, and of a large one, of 25 scorers
on 8,576 sets with texts of realistic length; processor time on one thread, which polars would
otherwise share out, waiting included.

The sets of the large one are made from the texts of carb-seed, shuffled word by word, so that they
compress about as real ones do; the scores are drawn.

Usage: python benchmarks/bench_report.py [SCORERS SETS [PAGE.html]]; with a name for the page it is
kept, and opened in Chromium: processor time of its main thread until everything works, and what it
went to.
"""

import os
import random
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
import polars as pl

from carb_cli.report.content import Runs, content
from carb_cli.report.page import render
from carb_cli.report.shown import JudgeTexts
from carb_data import BonSet, Dataset, ScoreTable, load
from carb_scorers.run import DatasetRecord, Machine, RunRecord, ScorerRecord
from carb_scorers.scorer import ScorerSpec, Usage

IMPORTED = time.process_time()


def made_up(count: int) -> Dataset:
    """Sets with the lengths, languages and words of the seed, each text different."""
    draw = random.Random(0)
    seed = list(load("carb-seed").without_perturbed())
    words = {}
    for item in seed:
        for text in (item.prompt_text, *(response.text for response in item.responses)):
            words.setdefault(item.language, []).extend(text.split(" ") if " " in text else text)

    def other(text: str, language: str) -> str:
        spaced = " " in text
        size = len(text.split(" ")) if spaced else len(text)
        return (" " if spaced else "").join(draw.choices(words[language], k=size)) or "x"

    made = []
    for number in range(count):
        item = seed[number % len(seed)]
        responses = tuple(
            r.model_copy(update={"text": other(r.text, item.language), "source": None})
            for r in item.responses
        )
        source = item.provenance.model_copy(update={"source_id": f"set-{number:05}"})
        fields = {
            "family": None,
            "kind": None,
            "id": f"set-{number:05}",
            "prompt": other(item.prompt_text, item.language),
            "responses": responses,
        }
        fields["provenance"] = source
        made.append(BonSet.model_validate(item.model_copy(update=fields).model_dump()))
    return Dataset(made)


def drawn(dataset: Dataset, scorers: int) -> ScoreTable:
    """Scores of scorers of rising skill, with what is hard for one being hard for all."""
    draw = np.random.default_rng(0)
    rows = [
        (item.id, r.id, str(r.role), item.culture, str(item.domain), item.language)
        for item in dataset
        for r in item.responses
    ]
    names = ["item_id", "response_id", "role", "culture", "domain", "language"]
    base = pl.DataFrame(rows, schema=names, orient="row")
    right = (base["role"] == "chosen").to_numpy()
    hard = draw.normal(size=len(base)) * 0.7
    frames = []
    for number in range(scorers):
        score = draw.normal(size=len(base)) + hard + right * number / scorers * 2.5
        text = pl.lit(None, pl.String)
        columns = [
            pl.lit(f"judge:model-{number:02}").alias("scorer"),
            text.alias("perturbation"),
            text.alias("original"),
        ]
        frames.append(base.with_columns(*columns, pl.Series("score", score)))
    return ScoreTable(pl.concat(frames))


def runs_of(dataset: Dataset, scores: ScoreTable, folder: Path) -> Runs:
    """The runs that would have given these scores."""
    names = scores.frame["scorer"].unique().sort().to_list()
    record = RunRecord(
        created=datetime.now(UTC),
        command=("carb", "run"),
        dataset=DatasetRecord(
            names=("made-up",),
            fingerprint=dataset.fingerprint,
            sets=len(dataset),
            responses=4 * len(dataset),
        ),
        scorers=tuple(
            ScorerRecord(
                spec=ScorerSpec(name=n, kind="judge", model=n),
                items=len(dataset),
                errors=0,
                usage=Usage(),
            )
            for n in names
        ),
        seed=0,
        window=64,
        python="",
        versions={},
        machine=Machine.current(),
    )
    return Runs((folder,), (record,), dataset, scores)


def main() -> None:
    if len(sys.argv) > 2:
        scorers, sets = (int(value) for value in sys.argv[1:3])
        page = measured(made_up(sets), scorers)
    else:
        print("a first report, of the seed (wanted: below 5 s with imports)")
        print(f"  imports {IMPORTED:.1f} s")
        measured(load("carb-seed").without_perturbed(), 5)
        print("a large report (wanted: below 30 s)")
        page = measured(made_up(8576), 25)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MiB")
    if len(sys.argv) > 3:
        kept = Path(sys.argv[3])
        kept.write_text(page, encoding="utf-8")
        print(opened(kept))


def measured(dataset: Dataset, scorers: int) -> str:
    """The page of a report; prints its size and its processor time on one thread."""
    scores = drawn(dataset, scorers)
    with tempfile.TemporaryDirectory() as folder:
        runs = runs_of(dataset, scores, Path(folder))
        start = time.process_time()
        report = content(runs)
        counted = time.process_time()
        judge = next(iter(report.scorers))
        written = {item.id: f"{item.responses[0].text} {item.prompt}" * 3 for item in dataset}
        page = render(report, runs, {judge: JudgeTexts(written)})
        rendered = time.process_time()
    texts = sum(
        len(text.encode())
        for item in dataset
        for text in (item.prompt_text, *(response.text for response in item.responses))
    )
    print(
        f"  {scorers} scorers x {len(dataset)} sets, {texts / 1e6:.1f} MB of texts, "
        f"page {len(page.encode()) / 1e6:.2f} MB"
    )
    print(
        f"  processor time {rendered - start:.1f} s: numbers {counted - start:.1f} s, "
        f"page {rendered - counted:.1f} s"
    )
    return page


def opened(page: Path) -> str:
    """Processor time of the main thread while the page opens, and what of it scripts, styles and
    layout took."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from browsers import FLAGS, chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.set_default_timeout(300_000)
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready=yes]", state="attached")
        found = {
            one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
        }
        browser.close()
    kinds = {"script": "ScriptDuration", "style": "RecalcStyleDuration", "layout": "LayoutDuration"}
    parts = ", ".join(f"{name} {found[key]:.2f} s" for name, key in kinds.items())
    return (
        f"opening: {found['TaskDuration']:.2f} s of the main thread ({parts}), "
        f"{found['Nodes']:,.0f} nodes"
    )


if __name__ == "__main__":
    main()
