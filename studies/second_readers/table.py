"""Prints the marks that second readers gave carb-seed@3, the table of its card.

Usage: python studies/second_readers/table.py

``marks.csv`` has a row for each set that was drawn by lot: the reading, what the reader picked
before seeing the key, the right answer, and marks from 1 to 5. The readers were language models
that had written none of the texts; each reading had other readers. Texts were reworded after the
first and the second reading, and eight languages after the third; the fifth read the two others,
unchanged, and shows how much readers differ. Arabic, Korean and Thai were reworded again before the
sixth. Editors went over every family before the seventh, and corrected what it marked low. 56
families in five languages were reworded before the eighth, and 132 after it, most of them Arabic,
Chinese and Russian; the ninth read these three. The tenth to the seventeenth gave marks alone, of
lots of these three shuffled with sets of the paper's published sample (``published``): two readers
read one lot, three another after 105 families were reworded, and three a last one after the phrases
that those had quoted, and others of their kind, were reworded in most families. Nine more phrases
were changed after the last. The eighteenth answered 60 sets of the reworded families of each. Then
editors corrected 31 families of nine languages whose facts a critical reader had doubted. Two
readers answered 102 of their sets (readings 19 and 20); 28 families were then reworded as they
proposed. In reading 21 one reader a language marked a lot of the whole seed. Editors then reworded
983 of the 1,516 sets with an implied place and 739 named ones, in all languages, mostly so that a
cue belongs to the story. Readings 22 (all languages) and 23 (a second reader of two of the same
lots) came in between, 24 after a second round of edits in four languages, 25 after a third in five.
In reading 26 closed-book readers answered 502 reworded sets; phrases that did not fit were changed
after it. Reading 27 has other readers and new lots of the texts as they then stood. Then
editors reworded 40 families' questions of Arabic and of English, after which readings 28 and 29
(a second reader of the same English lot) came; then 25 of Arabic again, and readings 30 and 31, two
readers of one Arabic lot. Sixteen English and ten Arabic phrases that these quoted were changed
after them. In reading 32 a closed-book reader answered a set of each reworded family.
After it ten Arabic phrases were changed. Then facts without two pages, or without one in a
language of their place, were replaced; in reading 33 closed-book readers answered 172 sets of nine
languages that this changed. All Arabic questions were put as people type them: readers marked
questions alone (``questions.csv``, versions 1 to 5; 1 was the one until then, 4 the one that was
kept), then lots with two or three readers each: 34 and 35, 37 and 38, 39 to 41, 42 to 44. Before
each later lot second wordings were dropped, and what had been quoted was mended. Reading 36 is a
closed-book reader of 102 Arabic sets before the first drop.
``perturbed.csv`` says of each perturbed version whether its reader found it as it should be,
``families.csv`` what readers found who had the facts before them, and ``every_family.csv`` what
editors found so in all families; each before correction. ``cues.csv`` is of later texts: 12 implied
wordings of each language, drawn by lot, then all new ones of these three languages, then those
reworded after reading 21, those before reading 28, those before reading 30, and the country that a
reader took each one to be about.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from scipy.stats import binomtest

PERTURBED = ("rc", "cc", "rp", "cl")
Row = dict[str, str]


def lines(rows: list[Row]) -> list[str]:
    """A line for each reading and language in the order of the file, and one for each reading."""
    drawn: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        drawn[row["reading"], row["language"]].append(row)
        if row["picked"]:
            drawn[row["reading"], "together"].append(row)
    return [
        f"reading {reading}, {language}: {summary(of)}" for (reading, language), of in drawn.items()
    ]


def summary(rows: list[Row]) -> str:
    parts = [f"{len(rows)} sets"]
    if all(row["picked"] for row in rows):
        right = sum(row["picked"] == row["right"] for row in rows)
        parts.append(f"right {share(right, len(rows))}")
    if all(row["natural"] for row in rows):
        natural = [int(row["natural"]) for row in rows]
        below = sum(mark < 3 for mark in natural)
        parts.append(f"natural {fmean(natural):.2f}, {below} below 3")
    if all(row["asked"] for row in rows):
        parts.append(f"asked {fmean(int(row['asked']) for row in rows):.2f}")
    return ", ".join(parts)


def perturbed_lines(rows: list[Row]) -> list[str]:
    """A line for each reading; the second one was by lot, after corrections of the first."""
    readings: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        readings[row["reading"]].append(row)
    return [f"perturbed versions, reading {name}: {perturbed(of)}" for name, of in readings.items()]


def perturbed(rows: list[Row]) -> str:
    counts = (f"{kind.upper()} {sum(row[kind] == 'yes' for row in rows)}" for kind in PERTURBED)
    return f"as they should be, of {len(rows)}: {', '.join(counts)}"


def families_lines(rows: list[Row]) -> list[str]:
    """What readers with the facts before them found in whole families."""
    of = len(rows)
    pairs = sum(int(row["pairs"]) for row in rows)
    second = sum(len(row["second"].split()) for row in rows)
    fine = {"alone": "yes", "phrase": "ok", "fact": "", "implied": "ok"}
    counts = {name: sum(row[name] == good for row in rows) for name, good in fine.items()}
    return [
        f"open book, {of} families, {share(counts['alone'], of)}: the facts alone answer",
        f"open book, {pairs} pairs of place and other answer, {share(second, pairs)}: right too",
        f"open book, {of} families, {share(counts['phrase'], of)}: phrases as people say them",
        f"open book, {of} families, {share(of - counts['fact'], of)}: a fact is doubtful",
        f"open book, {of} families, {share(counts['implied'], of)}: every cue tells its country",
    ]


def whole_line(rows: list[Row]) -> str:
    """What editors found in every family, before they corrected it."""
    pairs = sum(int(row["pairs"]) for row in rows)
    second = sum(len(row["second"].split()) for row in rows)
    alone = sum(row["alone"] not in ("", "yes") for row in rows)
    changed = sum(row["changed"] == "yes" for row in rows)
    return (
        f"every family, {len(rows)}: {second} of {pairs} pairs right too, in "
        f"{alone} the facts alone do not answer, {changed} were changed"
    )


def cues_lines(rows: list[Row]) -> Iterator[str]:
    """In how many implied wordings each reader recovered the country."""
    for reading in dict.fromkeys(row["reading"] for row in rows):
        read = [row for row in rows if row["reading"] == reading]
        right = sum(row["country"] == row["region"].partition("-")[0] for row in read)
        several = sum(bool(row["others"]) for row in read)
        told = share(right, len(read))
        yield f"implied wordings, {len(read)}: {told} told, {several} fit others too"


def share(count: int, of: int) -> str:
    limits = binomtest(count, of).proportion_ci(0.95, "exact")
    return f"{count} (exact 95% interval {100 * limits.low:.1f} to {100 * limits.high:.1f}%)"


def read(name: str) -> list[Row]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    printed = [*lines(read("marks.csv")), *perturbed_lines(read("perturbed.csv"))]
    printed += families_lines(read("families.csv"))
    printed.append(whole_line(read("every_family.csv")))
    printed += cues_lines(read("cues.csv"))
    sys.stdout.writelines(f"{line}\n" for line in printed)


if __name__ == "__main__":
    main()
