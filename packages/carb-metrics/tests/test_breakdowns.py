"""Breakdowns: roll-up of varieties, and the same numbers as grouping by hand."""

from __future__ import annotations

from carb_data import ScoreTable
from carb_metrics import bon_accuracy, breakdown

WON, LOST = [2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 0.0, 1.0]


def test_varieties_roll_up(make_table):
    result = breakdown(make_table([WON, LOST, LOST], cultures=["spanish", "spanish-mx", "thai"]))
    assert result.by_culture.groups["culture"].to_list() == ["spanish", "thai"]
    assert result.by_culture.cell("spanish").accuracy == 0.5


def test_each_grouping_holds_every_set_once(make_table):
    table = make_table(
        [WON, LOST, WON, WON], cultures=["korean", "thai", "german"], domains=["values", "safety"]
    )
    result = breakdown(table)
    assert result.overall == bon_accuracy(table).overall
    for name, part in result:
        if name not in ("counted", "overall"):
            assert part.groups["n"].sum() == 4, name
            assert part.overall == result.overall, name
    assert result.by_resource_class.groups["resource_class"].to_list() == [3, 4, 5]
    assert result.by_culture_domain.by == ("culture", "domain")


def test_source_items_keep_their_sets_together(make_table):
    sets, sources = [WON] * 20 + [LOST] * 20, [f"q{i // 4}" for i in range(40)]
    apart = breakdown(make_table(sets, cultures=["thai", "german"]))
    together = breakdown(make_table(sets, cultures=["thai", "german"], sources=sources))
    alone = breakdown(
        make_table(sets, cultures=["thai", "german"], sources=[f"q{i}" for i in range(40)])
    )
    assert together.overall.accuracy == apart.overall.accuracy
    assert alone.overall == apart.overall
    for part in (
        "by_domain",
        "by_culture",
        "by_script",
    ):  # by the one domain the average is that over sets
        narrow, wide = getattr(apart, part).macro, getattr(together, part).macro
        assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_empty_input_gives_null(make_table):
    result = breakdown(ScoreTable(make_table([WON]).frame.clear()))
    assert result.overall.accuracy is None
    assert result.by_culture.groups.height == 0
    assert result.by_script.macro.accuracy is None
