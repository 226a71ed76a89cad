"""Failure analysis on sets whose answer is worked out by hand."""

from math import comb

import pytest

from carb_data import CarbError, Dataset, Provenance, Response
from carb_metrics.missed import UNKNOWN, at_least, failures
from sets_and_scores import a_set, scores_of

PLACES = ("spanish-es", "spanish-mx", "thai", "japanese")


def item(number, culture="spanish-es", topic="food"):
    others = [place for place in PLACES if place != culture]
    responses = [
        Response(
            id="c",
            text=f"right {number} in {culture}",
            role="chosen",
            language="en",
            culture=culture,
        )
    ]
    responses += [
        Response(id=f"r{i}", text=f"of {place}", role="rejected", language="en", culture=place)
        for i, place in enumerate(others)
    ]
    return a_set(
        f"{culture}-{topic}-{number}", culture, responses, topic=topic, prompt=f"Question {number}?"
    )


def table(dataset, scorers):
    """``scorers``: name to a function from a set to the ids of the responses at its top."""

    def rule(pick):
        return lambda s, r: None if (top := pick(s)) is None else float(r.id in top)

    return scores_of(dataset, {name: rule(pick) for name, pick in scorers.items()})


def number(s):
    return int(s.id.rpartition("-")[2])


DATA = Dataset([*(item(n) for n in range(20)), *(item(n, "thai", "sport") for n in range(20))])


def mostly(wrong, taken):
    """Right but for the Spanish sets below ``wrong``, for which it takes ``taken``."""
    return lambda s: {taken} if s.culture == "spanish-es" and number(s) < wrong else {"c"}


class TestFailures:
    @pytest.mark.parametrize("tie", ["family", "source_item"])
    def test_ten_sets_of_one_origin_are_one_unit(self, tie):
        """They are missed together: one of 41 units, and it lies in one of 41 places."""
        origin = Provenance(source="test", source_id="q", license="CC0-1.0", method="authored")
        one = {"family": "spoons"} if tie == "family" else {"provenance": origin}
        data = Dataset(
            [
                *(item(n).model_copy(update=one) for n in range(10)),
                *(item(n, "thai", "sport") for n in range(40)),
            ]
        )
        found = failures(data, table(data, {"a": mostly(10, "r0")}), mirrors=True)
        assert [(c.culture, c.missed, c.sets, c.p) for c in found.clusters] == [
            ("spanish-es", 10, 10, pytest.approx(1 / 41))
        ]

    def test_what_all_miss_by_hand(self):
        found = failures(DATA, table(DATA, {"a": mostly(6, "r0"), "b": mostly(4, "r0")}))
        assert found.good == ("b", "a")
        assert (found.sets, found.missed, found.same_answer) == (40, 4, 1.0)
        assert found.expected == pytest.approx(20 * (6 / 20) * (4 / 20))
        (cluster,) = found.clusters
        assert (cluster.culture, cluster.topic, cluster.missed, cluster.sets) == (
            "spanish-es",
            "food",
            4,
            20,
        )
        assert cluster.expected == pytest.approx(1.2)
        assert cluster.p == pytest.approx(comb(20, 4) / comb(40, 4))
        assert cluster.p_adjusted == cluster.p
        first = cluster.examples[0]
        assert (first.item_id, first.prompt) == ("spanish-es-food-0", "Question 0?")
        assert len(cluster.examples) == 3

    def test_the_mexican_answer_for_the_spanish_one(self):
        found = failures(DATA, table(DATA, {"a": mostly(6, "r0"), "b": mostly(3, "r1")}))
        first, second = found.confusion[:2]
        assert (first.culture, first.taken, first.offered) == ("spanish-es", "spanish-mx", 40)
        assert (first.picked, first.rate, first.expected) == (6, 6 / 40, pytest.approx(3))
        assert (second.taken, second.picked) == ("thai", 3)
        assert sum(c.picked for c in found.confusion) == 9
        assert sum(c.expected for c in found.confusion) == pytest.approx(9)
        assert {c.culture for c in found.confusion if c.picked} == {"spanish-es"}

    def test_only_scorers_above_chance_are_good(self):
        scores = table(DATA, {"a": mostly(4, "r0"), "blind": lambda s: {"c", "r0", "r1", "r2"}})
        assert failures(DATA, scores).good == ("a",)
        with pytest.raises(CarbError, match="No scorer here is better than chance"):
            failures(DATA, table(DATA, {"blind": lambda s: {"r0"}}))

    def test_sets_with_a_failed_score_are_left_out(self):
        scores = table(
            DATA, {"a": mostly(4, "r0"), "b": lambda s: None if number(s) == 0 else {"c"}}
        )
        found = failures(DATA, scores)
        assert (found.sets, found.missed, found.clusters) == (38, 0, ())
        assert found.same_answer is None

    def test_half_a_pick_and_unknown_cultures(self):
        bare = item(0)
        bare = bare.model_copy(
            update={
                "responses": tuple(r.model_copy(update={"culture": None}) for r in bare.responses)
            }
        )
        data = Dataset([bare, *(item(n) for n in range(1, 30))])
        found = failures(data, table(data, {"a": lambda s: {"c"} if number(s) else {"c", "r0"}}))
        (only,) = (one for one in found.confusion if one.picked)
        assert (only.taken, only.offered, only.picked, only.expected) == (
            UNKNOWN,
            1,
            0.5,
            pytest.approx(0.5),
        )
        assert found.missed == 1  # a tie is a miss


@pytest.mark.parametrize("case", [(0, 5, 3, 20), (2, 5, 3, 20), (4, 5, 3, 20), (9, 40, 60, 90)])
def test_the_chance_of_many_missed_sets_equals_scipy(case):
    stats = pytest.importorskip("scipy.stats")
    hits, drawn, marked, total = case
    expected = stats.hypergeom.sf(hits - 1, total, marked, drawn)
    assert at_least(hits, drawn, marked, total) == pytest.approx(expected, rel=1e-9, abs=1e-12)
