"""World Values Survey: what most people of a country answered, against what most people of other countries did.

For files that a user supplies: the official CSV of wave 7 ("WVS Cross-National Wave 7 csv") and the official codebook,
as PDF or as the text taken from it. They may not be redistributed, nor may sets made from them.

``chosen`` is the answer that a majority of a country gives (weighted), significantly ahead of each rejected one.
``rejected`` are majority answers of countries that differ significantly in both answers; where fewer than three such
answers exist, options that significantly fewer people of the country chose fill the set (``fill=false`` forbids it).

Tests are two-sided z tests of proportions (Fleiss, Levin and Paik 2003, Statistical Methods for Rates and Proportions,
ch. 3) with the effective sample size of Kish 1965, Survey Sampling, at a level divided by the number of tests of the
question (Bonferroni).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import BonSet, Domain, Provenance, Response, Role
from carb_data.sources.base import Names, Options, Source
from carb_data.sources.countries import Country, culture_id_of, find_country
from carb_data.sources.models import Skip
from carb_data.sources.wvs_codebook import Question, read_codebook

LICENSE = "LicenseRef-WVS-no-redistribution"
URL = "https://www.worldvaluessurvey.org/WVSDocumentationWV7.jsp"
COUNTRY, WEIGHT = "B_COUNTRY_ALPHA", "W_WEIGHT"

_COLUMNS_AT_ONCE = 24
_REJECTED = 3


class WvsOptions(Options):
    """Options of ``wvs``."""

    codebook: str | None = Field(None, description="Codebook, PDF or text; otherwise *codebook* beside the CSV")
    countries: Names = Field((), description="Countries to build sets for, by name or code; empty for all")
    questions: Names = Field((), description="Variables such as Q1; empty for all of the codebook")
    majority: float = Field(0.5, ge=0, lt=1, description="Share that an answer must exceed to be a country's answer")
    alpha: float = Field(0.01, gt=0, lt=1, description="Level of the tests, before correction")
    min_people: int = Field(200, ge=1, description="Answers that a country must have given to a question")
    fill: bool = Field(True, description="Fill sets with options that significantly fewer people chose")


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


def build(path: Path, options: WvsOptions, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every question and country that a registered culture covers.

    Countries that no culture covers, and questions that are in only one of the two files, are skips as a whole.

    Args:
        path: the CSV, or the folder that holds it (and the codebook).
        options: The thresholds, and the countries and questions to build.
        seed: chooses the lending countries, the fillings and the order.
    """
    data, codebook = _find(path, options.codebook)
    questions = read_codebook(codebook)
    frame, columns = _open(data)
    usable: list[str] = []
    for variable in dict.fromkeys(options.questions or tuple(questions)):
        reason = _defect(questions.get(variable), variable in columns)
        if reason is None:
            usable.append(variable)
        else:
            yield Skip(source_id=variable, reason=reason)
    covered: dict[str, tuple[Country, str]] = {}
    for code in _codes(frame, _selected(options.countries)):
        country = find_country(code)
        culture = culture_id_of(country)
        if country is None or culture is None:
            yield Skip(source_id=code, reason="no registered culture has this country among its regions")
        else:
            covered[code] = country, culture
    for start in range(0, len(usable), _COLUMNS_AT_ONCE):
        batch = usable[start : start + _COLUMNS_AT_ONCE]
        shares = _shares(frame, batch, questions)
        for variable in batch:
            for code, (country, culture) in covered.items():
                yield _make(questions[variable], code, country, culture, shares[variable], options, seed)


def _defect(question: Question | None, in_data: bool) -> str | None:
    if question is None:
        return "the codebook has no such question"
    if not in_data:
        return "the data file has no such column"
    return None if question.in_words else "the question is a scale without words for its answers"


def _codes(frame: pl.LazyFrame, selected: set[str]) -> list[str]:
    codes = frame.select(pl.col(COUNTRY).unique().sort()).collect(engine="streaming")[COUNTRY].drop_nulls()
    return [code for code in codes.to_list() if not selected or code in selected]


def _make(
    question: Question,
    code: str,
    country: Country,
    culture: str,
    all_shares: dict[str, Shares],
    options: WvsOptions,
    seed: int,
) -> BonSet | Skip:
    def skip(reason: str) -> Skip:
        return Skip(source_id=f"{code}/{question.variable}", reason=reason, culture=culture, language="en")

    here = all_shares.get(code)
    if here is None or here.people < options.min_people:
        return skip("too few people of the country answered")
    top = here.top
    if here.share[top] <= options.majority:
        return skip("no answer has a majority")
    level = options.alpha / max(1, 3 * (len(all_shares) - 1))
    behind = [
        answer
        for answer in question.answers
        if answer != top and lead_p_value(here.share[top], here.share.get(answer, 0.0), here.effective) < level
    ]
    random_ = random.Random(f"wvs:{seed}:{code}:{question.variable}")
    others = [other for other in sorted(all_shares) if other != code]
    random_.shuffle(others)
    lent: dict[int, str | None] = {}
    for other in others:
        there = all_shares[other]
        answer = there.top
        if (
            answer in behind
            and answer not in lent
            and there.people >= options.min_people
            and there.share[answer] > options.majority
            and _differ(here, there, top, level)
            and _differ(there, here, answer, level)
        ):
            lent[answer] = other
    if not lent:
        return skip("no country with another majority answer differs significantly")
    wrong: list[tuple[int, str | None]] = [*lent.items()][:_REJECTED]
    if options.fill:
        spare = [answer for answer in behind if answer not in lent]
        random_.shuffle(spare)
        wrong += [(answer, None) for answer in spare[: _REJECTED - len(wrong)]]
    if len(wrong) < _REJECTED:
        return skip("fewer than three answers are significantly behind")
    order = random_.sample("abcd", _REJECTED + 1)
    answers: list[tuple[int, str | None]] = [(top, code), *wrong]
    responses = [
        Response(
            id=letter,
            text=question.answers[answer],
            role=Role.CHOSEN if answer == top else Role.REJECTED,
            language="en",
            culture=culture if where == code else culture_id_of(find_country(where or "")),
            generator="human",
        )
        for letter, (answer, where) in zip(order, answers, strict=True)
    ]
    borrowed = "; ".join(
        f"'{question.answers[answer]}' {all_shares[other].share[answer]:.0%} in {other}"
        for answer, other in wrong
        if other is not None
    )
    return BonSet(
        id=f"wvs/{code}/{question.variable}",
        culture=culture,
        domain=Domain.VALUES,
        topic=question.name,
        language="en",
        prompt=f"{question.text}\n\nHow would most people in {country.name} answer?",
        responses=tuple(sorted(responses, key=lambda response: response.id)),
        provenance=Provenance(
            source="wvs",
            source_id=question.variable,
            license=LICENSE,
            url=URL,
            method="human-vote",
            notes=f"{here.share[top]:.0%} of {here.people} people in {code}; {borrowed}.",
        ),
    )


def difference_p_value(share: float, effective: float, other_share: float, other_effective: float) -> float:
    """Two-sided p of the z test that two independent proportions are equal, pooled; 1 where nothing varies."""
    pooled = (share * effective + other_share * other_effective) / (effective + other_effective)
    variance = pooled * (1 - pooled) * (1 / effective + 1 / other_effective)
    return 1.0 if variance <= 0 else math.erfc(abs(share - other_share) / math.sqrt(2 * variance))


def lead_p_value(share: float, behind: float, effective: float) -> float:
    """Two-sided p of the z test that two answers of one sample are equally frequent.

    The variance of p1 - p2 in a multinomial sample is (p1 + p2 - (p1 - p2)^2) / n; under the hypothesis, (p1 + p2) / n.
    """
    variance = (share + behind) / effective
    return 1.0 if variance <= 0 else math.erfc(abs(share - behind) / math.sqrt(2 * variance))


def _differ(more: Shares, less: Shares, answer: int, level: float) -> bool:
    high, low = more.share.get(answer, 0.0), less.share.get(answer, 0.0)
    return high > low and difference_p_value(high, more.effective, low, less.effective) < level


def _shares(frame: pl.LazyFrame, batch: Sequence[str], questions: dict[str, Question]) -> dict[str, dict[str, Shares]]:
    """Variable to country code to shares, from one pass over the file."""
    weight = pl.col(WEIGHT).cast(pl.Float64, strict=False).fill_null(1.0)
    narrow = frame.select(COUNTRY, weight, *(pl.col(v).cast(pl.Float64, strict=False).cast(pl.Int32) for v in batch))
    counts = (
        narrow.unpivot(on=list(batch), index=[COUNTRY, WEIGHT])
        .filter(pl.col("value").is_not_null() & pl.col(COUNTRY).is_not_null() & (pl.col(WEIGHT) > 0))
        .group_by("variable", COUNTRY, "value")
        .agg(pl.len().alias("n"), pl.col(WEIGHT).sum().alias("w"), (pl.col(WEIGHT) ** 2).sum().alias("w2"))
        .collect(engine="streaming")
    )
    raw: dict[str, dict[str, dict[int, tuple[int, float, float]]]] = {variable: {} for variable in batch}
    for variable, code, value, n, w, w2 in counts.sort("variable", COUNTRY, "value").iter_rows():
        if value in questions[variable].answers:
            raw[variable].setdefault(code, {})[value] = (n, w, w2)
    return {variable: {code: _summed(cells) for code, cells in by.items()} for variable, by in raw.items()}


def _summed(cells: dict[int, tuple[int, float, float]]) -> Shares:
    total = sum(w for _, w, _ in cells.values())
    squares = sum(w2 for _, _, w2 in cells.values())
    share = {code: w / total for code, (_, w, _) in cells.items()}
    return Shares(share, sum(n for n, _, _ in cells.values()), total**2 / squares)


def _open(data: Path) -> tuple[pl.LazyFrame, set[str]]:
    try:
        with data.open(encoding="utf-8-sig", errors="replace") as file:
            header = file.readline()
        separator = max(",;\t", key=header.count)
        frame = pl.scan_csv(data, separator=separator, infer_schema=False, encoding="utf8-lossy")
        columns = set(frame.collect_schema().names())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CarbError(f"Cannot read the World Values Survey's {data}: {error}.") from None
    if COUNTRY not in columns or WEIGHT not in columns:
        raise CarbError(f"{data} is not the official CSV of wave 7: it lacks the column {COUNTRY} or {WEIGHT}.")
    return frame, columns


def _find(path: Path, codebook: str | None) -> tuple[Path, Path]:
    folder = path if path.is_dir() else path.parent
    tables = [path] if path.is_file() else sorted(file for file in folder.glob("*.csv") if "codebook" not in file.name)
    if len(tables) != 1:
        found = ", ".join(file.name for file in tables) or "none"
        raise CarbError(f"{path} must hold one CSV of the World Values Survey; found {found}. Name the file itself.")
    if codebook is not None:
        if not Path(codebook).is_file():
            raise CarbError(f"There is no codebook at {codebook}.")
        return tables[0], Path(codebook)
    books = [f for f in sorted(folder.iterdir()) if "codebook" in f.name.casefold() and f.suffix in {".txt", ".pdf"}]
    if not books:
        raise CarbError(f"No *codebook*.txt or .pdf beside {tables[0]}; give it with the option codebook.")
    return tables[0], books[0]


def _selected(names: Sequence[str]) -> set[str]:
    codes = set()
    for name in names:
        country = find_country(name)
        if country is None:
            raise CarbError(f"wvs: '{name}' is not a country; give its English name or its ISO 3166 code.")
        codes.add(country.alpha3)
    return codes


SOURCE = Source(
    name="wvs",
    description="World Values Survey, files you bring: a country's majority answer against those of others",
    license=LICENSE,
    rows=build,
    options=WvsOptions,
)
