"""A source in Python, the World Values Survey: what most people of a country answered, against
those of others.

    python examples/wvs/wvs_source.py FOLDER --out wvs.jsonl

An installed package registers ``SOURCE`` under the entry point ``carb.sources``; ``carb data build
wvs`` finds it then.

For files that a user supplies: the official CSV of wave 7 ("WVS Cross-National Wave 7 csv") and the
text of the official codebook (``pdftotext -layout``). They may not be redistributed, nor may sets
made from them.

``chosen`` is the answer that a majority of a country gives (weighted), significantly ahead of each
rejected one. ``rejected`` are majority answers of countries that differ significantly in both
answers; where fewer than three such answers exist, options that significantly fewer people of the
country chose fill the set.

Tests are two-sided z tests of proportions (Fleiss, Levin and Paik 2003, Statistical Methods for
Rates and Proportions, ch. 3) with the effective sample size of Kish 1965, Survey Sampling, at a
level divided by the number of tests of the question (Bonferroni).
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import Field
from wvs_files import Question, answers_of, difference_p_value, lead_p_value, open_survey

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Frozen, Kind, Provenance, Response, Role
from carb_data.registry import cultures, find_country
from carb_data.sources import Names, Skip, Source
from carb_data.sources import build as build_source

NAME = "wvs"
LICENSE = "LicenseRef-WVS-no-redistribution"
URL = "https://www.worldvaluessurvey.org/WVSDocumentationWV7.jsp"
_REJECTED = 3


class WvsOptions(Frozen):
    """WvsOptions of ``wvs``."""

    countries: Names = ()
    """Countries to build sets for, by name or code; empty for all."""
    questions: Names = ()
    """Variables such as Q1; empty for all of the codebook."""
    majority: float = Field(0.5, ge=0, lt=1)
    """Share that an answer must exceed to be a country's answer."""
    alpha: float = Field(0.01, gt=0, lt=1)
    """Level of the tests, before correction."""
    min_people: int = Field(200, ge=1)
    """Answers that a country must have given to a question."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The answers of one country to one question."""

    share: dict[int, float]
    """Code to weighted share; the shares sum to 1."""
    people: int
    effective: float
    """Kish's effective sample size, (sum w)^2 / sum w^2."""

    @property
    def top(self) -> int:
        """The most frequent answer."""
        return max(self.share, key=lambda code: (self.share[code], -code))

    def has_majority(self, options: WvsOptions) -> bool:
        """Whether enough people answered, and more than the share asked for gave the most frequent
        answer."""
        return self.people >= options.min_people and self.share[self.top] > options.majority


def wvs_rows(path: Path, options: WvsOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every question and country that a registered culture covers.

    Countries that no culture covers, and questions that are in only one of the two files, are skips
    as a whole. The seed chooses the lending countries, the fillings and the order.
    """
    frame, questions = open_survey(path)
    columns, usable = set(frame.collect_schema().names()), []
    for variable in dict.fromkeys(options.questions or tuple(questions)):
        if variable not in questions or variable not in columns:
            yield Skip(
                source_id=variable,
                reason="the question is not in both the codebook and the data file",
            )
        elif not all(
            re.search(r"[^\W\d]{2}", label) for label in questions[variable].answers.values()
        ):
            yield Skip(
                source_id=variable, reason="the question is a scale without words for its answers"
            )
        else:
            usable.append(variable)
    table = answers_of(frame, usable)
    codes: list[str] = []
    for code in _codes(table, options.countries):
        if cultures.of_country(code) is None:
            yield Skip(
                source_id=code, reason="no registered culture has this country among its regions"
            )
        else:
            codes.append(code)
    for variable in usable:
        shares = _shares(table, questions[variable])
        for code in codes:
            yield _make(questions[variable], code, shares, options, seed)


def _codes(table: pl.DataFrame, asked: Sequence[str]) -> list[str]:
    """The countries of the file that were asked for, as ISO 3166-1 alpha-3 codes."""
    selected = set()
    for name in asked:
        country = find_country(name)
        if country is None:
            raise CarbError(
                f"wvs: '{name}' is not a country; give its English name or its ISO 3166 code."
            )
        selected.add(country.alpha3)
    return [
        code for code in table["code"].unique().sort().to_list() if not selected or code in selected
    ]


def _make(
    question: Question, code: str, shares: Mapping[str, Shares], options: WvsOptions, seed: int
) -> BonSet | Skip:
    country, culture = find_country(code), cultures.of_country(code)
    random_ = random.Random(f"wvs:{seed}:{code}:{question.variable}")
    wrong = _wrong_answers(question, code, shares, options, random_)
    if country is None or culture is None or isinstance(wrong, str):
        reason = wrong if isinstance(wrong, str) else "it is no country"
        return Skip(
            source_id=f"{code}/{question.variable}", reason=reason, culture=culture, language="en"
        )
    here = shares[code]
    answers: dict[int, str | None] = {here.top: code, **wrong}
    responses = [
        Response(
            id=letter,
            text=question.answers[answer],
            role=Role.CHOSEN if answer == here.top else Role.REJECTED,
            language="en",
            culture=cultures.of_country(where or ""),
            generator="human",
        )
        for letter, (answer, where) in zip(
            random_.sample("abcd", len(answers)), answers.items(), strict=True
        )
    ]
    lent = [
        (question.answers[n], shares[other].share[n], other)
        for n, other in wrong.items()
        if other is not None
    ]
    borrowed = "; ".join(f"'{text}' {share:.0%} in {other}" for text, share, other in lent)
    return BonSet(
        id=f"wvs/{code}/{question.variable}",
        culture=culture,
        domain=Domain.VALUES,
        topic=question.name,
        language="en",
        prompt=f"{question.text}\n\nHow would most people in {country.name} answer?",
        responses=tuple(sorted(responses, key=lambda response: response.id)),
        provenance=Provenance(
            source=NAME,
            source_id=question.variable,
            license=LICENSE,
            url=URL,
            method="human-vote",
            notes=f"{here.share[here.top]:.0%} of {here.people} people in {code}; {borrowed}.",
            tier="human-voted",
        ),
        kind=Kind.VALUE,
    )


def _wrong_answers(
    question: Question,
    code: str,
    shares: Mapping[str, Shares],
    options: WvsOptions,
    random_: random.Random,
) -> dict[int, str | None] | str:
    """Three answers, each with the country whose majority gives it or None for a filling; or why
    there are none."""
    here = shares.get(code)
    if here is None or here.people < options.min_people:
        return "too few people of the country answered"
    if not here.has_majority(options):
        return "no answer has a majority"
    level = options.alpha / max(1, 3 * (len(shares) - 1))
    behind = [
        answer
        for answer in question.answers
        if answer != here.top
        and lead_p_value(here.share[here.top], here.share.get(answer, 0.0), here.effective) < level
    ]
    others = [
        other for other in sorted(shares) if other != code and shares[other].has_majority(options)
    ]
    random_.shuffle(others)
    lent: dict[int, str | None] = {}
    for other in others:
        there = shares[other]
        differ = _differ(here, there, here.top, level) and _differ(there, here, there.top, level)
        if there.top in behind and differ:
            lent.setdefault(there.top, other)
    if not lent:
        return "no country with another majority answer differs significantly"
    spare = [answer for answer in behind if answer not in lent]
    random_.shuffle(spare)
    wrong = [*lent.items(), *((answer, None) for answer in spare)][:_REJECTED]
    return (
        dict(wrong)
        if len(wrong) == _REJECTED
        else "fewer than three answers are significantly behind"
    )


def _differ(more: Shares, less: Shares, answer: int, level: float) -> bool:
    high, low = more.share.get(answer, 0.0), less.share.get(answer, 0.0)
    return high > low and difference_p_value(high, more.effective, low, less.effective) < level


def _shares(table: pl.DataFrame, question: Question) -> dict[str, Shares]:
    """Country code to shares."""
    counts = (
        table.select("code", "w", pl.col(question.variable).alias("answer"))
        .filter(pl.col("answer").is_in(list(question.answers)))
        .group_by("code", "answer")
        .agg(pl.len().alias("n"), pl.col("w").sum(), (pl.col("w") ** 2).sum().alias("squares"))
        .sort("code", "answer")
    )
    cells: dict[str, list[tuple[int, int, float, float]]] = defaultdict(list)
    for code, *cell in counts.iter_rows():
        cells[code].append((cell[0], cell[1], cell[2], cell[3]))
    found = {}
    for code, own in cells.items():
        total = sum(w for _, _, w, _ in own)
        share = {answer: w / total for answer, _, w, _ in own}
        found[code] = Shares(
            share, sum(n for _, n, _, _ in own), total**2 / sum(squares for *_, squares in own)
        )
    return found


SOURCE = Source(
    NAME,
    "World Values Survey: a country's majority answer against those of others",
    LICENSE,
    wvs_rows,
    WvsOptions,
)


def main() -> int:
    """Build the sets of a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="with the official CSV and the text of the codebook"
    )
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    built = build_source(SOURCE, given.folder, given.out)
    print(f"{built.built} sets in {given.out}; skipped: {built.reasons}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
