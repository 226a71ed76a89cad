"""The interface of sources: registry, options, streaming build, report."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from pydantic import Field

from carb_data import CarbError, Dataset
from carb_data.files import to_json
from carb_data.models import BonSet, Frozen
from carb_data.sources import Names, Skip, Source, build, open_source, rows, source_names
from small_sets import small_set


class CountOptions(Frozen):
    count: int = Field(3, ge=0, description="How many sets")
    cultures: Names = ("thai", "german")


def numbered(n: int, culture: str = "thai", name: str | None = None) -> BonSet:
    return small_set(
        name or f"s{n}", [f"{letter} {n}" for letter in "abcd"], 1, culture=culture, language="th"
    )


def make(path: Path, options: CountOptions, seed: int):
    for n in range(options.count):
        yield numbered(n, options.cultures[n % len(options.cultures)])
        if n % 2:
            yield Skip(source_id=str(n), reason="odd")


SOURCE = Source("numbered", "sets with numbers", "CC0-1.0", make, CountOptions)


def test_a_build_writes_every_set_and_reports(tmp_path):
    seen = []
    out = tmp_path / "a" / "out.jsonl"
    report = build(SOURCE, tmp_path, out, count="5", progress=lambda *counts: seen.append(counts))
    assert report.built == len(Dataset.load(out)) == 5
    assert report.counts == {"german": {"values": 2}, "thai": {"values": 3}}
    assert report.reasons == {"odd": 2}
    assert report.skipped == 2
    assert report.licenses == ("CC0-1.0",)
    assert report.options == {"count": 5, "cultures": ["thai", "german"]}
    assert seen[-1] == (5, 2)
    assert len(seen) == 7


def test_repeated_ids_are_skipped_with_a_reason(tmp_path):
    def twice(path, options, seed):
        yield from (numbered(0), numbered(1, name="s0"))

    report = build(Source("twice", "", "CC0-1.0", twice), tmp_path, tmp_path / "out.jsonl")
    assert (report.built, report.reasons) == (1, {"repeated id": 1})


def test_a_failed_build_leaves_the_old_file(tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text(to_json(numbered(7)) + "\n")

    def breaks(path, options, seed):
        yield numbered(0)
        raise CarbError("broken source")

    for source in (
        Source("breaks", "", "CC0-1.0", breaks),
        Source("empty", "", "CC0-1.0", lambda *_: iter(())),
    ):
        with pytest.raises(CarbError, match=r"broken source|Nothing could be built"):
            build(source, tmp_path, out)
        assert Dataset.load(out)[0].id == "s7"
        assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_an_unknown_culture_ends_the_build(tmp_path):
    with pytest.raises(CarbError, match="unknown culture 'atlantis'"):
        build(SOURCE, tmp_path, tmp_path / "out.jsonl", cultures="atlantis")


def test_mistakes_are_named(tmp_path):
    with pytest.raises(CarbError, match=r"There is no source 'blnd'\. Did you mean 'blend'"):
        open_source("blnd")
    with pytest.raises(CarbError, match="There is nothing at"):
        build(SOURCE, tmp_path / "absent", tmp_path / "out.jsonl")
    with pytest.raises(CarbError, match=r"'cont' is unknown, did you mean 'count'"):
        rows(SOURCE, tmp_path, cont=1)
    with pytest.raises(CarbError, match="count: must be a whole number"):
        rows(SOURCE, tmp_path, count="many")
    with pytest.raises(CarbError, match=r"written to a \.jsonl or \.parquet file"):
        build(SOURCE, tmp_path, tmp_path / "out.txt")
    with pytest.raises(CarbError, match="known are no options"):
        rows(Source("plain", "", "x", make), tmp_path, a=1)


def test_others_may_register_sources(monkeypatch):
    point = metadata.EntryPoint("bad", "carb_data.errors:CarbError", "carb.sources")
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [point] if group == point.group else []
    )
    assert "bad" in source_names()
    with pytest.raises(CarbError, match="which is not a carb_data Source"):
        open_source("bad")
