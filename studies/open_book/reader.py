"""Which place's fact do criteria state? A model reads it, beside the string measure of
``study.py``.

    python studies/open_book/reader.py "implicit:PATH/qwen2.5-1.5b?ref=none&dtype=bfloat16" --out
    runs/open-book

The reader sees a judge's criteria without its letters, and never the question. What it is asked for
is either fact: the log-odds are how much more likely the criteria make the right place's fact than
the other's, each beside its likelihood without criteria. Criteria that state a fact of another
topic state neither, so what 19 of 20 of those stay below is the limit, in both directions. Criteria
whose fact is known say first how often the reader is right.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from types import SimpleNamespace

import numpy as np
from outcomes import Row, honest, over, states_fact
from power import t_interval
from study import NAMES, prepare

from carb_scorers import score
from tal_rlvr.judgement import before_verdict
from tal_rlvr.masking import mask_verdict

ASKED = "{}\n\nWhich custom is this about? Say in one sentence what people there do or think."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reader", help="spec of a scorer that gives a response's log-likelihood")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the study, with its runs"
    )
    parser.add_argument("--longest", type=int, default=360, help="as in the study")
    parser.add_argument("--mirrors", type=int, default=2, help="as in the study")
    given = parser.parse_args()
    _, held = prepare(SimpleNamespace(longest=given.longest, mirrors=given.mirrors, out=given.out))
    rows, topics = {row["id"]: row for row in held}, [row["source_item"] for row in held]
    own = [(row, honest(row["fact"], row["chosen"], row["rejected"], "A")) for row in held]
    other = [(row, honest(row["other_fact"], row["rejected"], row["chosen"], "A")) for row in held]
    alike = [(row, f"said there: {row['chosen']}") for row in held]
    foreign = [
        (row, next(t for o, t in own[n:] + own if o["source_item"] != topics[n]))
        for n, row in enumerate(held)
    ]
    runs = [json.loads(file.read_text()) for file in sorted(given.out.glob("*-[0-9]*.json"))]
    written = [
        (rows[one["pair"]], before_verdict(one["text"])) for run in runs for one in run["verdicts"]
    ]
    found = read(given.reader, [*own, *other, *alike, *foreign, *written])
    stated, wrong, answers, neither, judged = np.split(found, np.arange(1, 5) * len(held))
    limit = float(np.quantile(np.abs(neither), 0.95))
    print(
        f"Limit {limit:.1f} nats. Right fact written: above it in {share(stated > limit, topics)}"
    )
    print(f"Other fact written: below it in {share(wrong < -limit, topics)}")
    print(f"Right answer written, no fact: above 0 in {share(answers > 0, topics)}")
    states, others = judged > limit, judged < -limit
    by_string = np.array(
        [states_fact(text, row["fact"], row["other_fact"]) for row, text in written]
    )
    print(
        f"Reader and string agree on the right fact in {np.mean(by_string == states):.3f} "
        f"of {len(written)} outputs"
    )
    groups = [row["source_item"] for row, _ in written[: len(runs[0]["verdicts"])]]
    figures = {}
    for n, run in enumerate(runs):
        part = slice(n * len(groups), (n + 1) * len(groups))
        reads = (1.0 + states[part] - others[part]) / 2
        figures[run["arm"], run["seed"]] = (over(groups, states[part]), over(groups, reads))
    for arm in NAMES:
        seeds = [two for (name, _), two in figures.items() if name == arm]
        if seeds:
            means = [mean(values) for values in zip(*seeds, strict=True)]
            print(
                f"{arm}, {len(seeds)} seeds: states_fact {means[0]:.3f} reads_place "
                f"{means[1]:.3f}, by the reader"
            )
    both = [seed for arm, seed in figures if arm == "C" and ("C+A", seed) in figures]
    if len(both) > 1:
        for place, name in enumerate(("states_fact", "reads_place")):
            less = np.array(
                [figures["C+A", seed][place] - figures["C", seed][place] for seed in both]
            )
            print(f"{name} by the reader, C+A less C over seeds: {t_interval(less)}")


def read(spec: str, texts: Sequence[tuple[Row, str]]) -> np.ndarray:
    """The log-odds of the right place's fact against the other's behind each text, in nats; each
    text is read once."""
    asked = [
        (row["id"], mask_verdict(text), row[name])
        for row, text in texts
        for name in ("fact", "other_fact")
    ]
    without = [(name, "", fact) for name, _, fact in asked]
    distinct = list(dict.fromkeys([*asked, *without]))
    found = score(
        spec, [ASKED.format(text) for _, text, _ in distinct], [fact for _, _, fact in distinct]
    )
    of = dict(zip(distinct, found, strict=True))
    gains = np.array([of[one] - of[base] for one, base in zip(asked, without, strict=True)])
    return gains[::2] - gains[1::2]


def share(right: np.ndarray, topics: Sequence[str]) -> str:
    return f"{over(topics, right):.3f} of {len(right)}"


if __name__ == "__main__":
    sys.exit(main())
