"""How often the test of the place win rate keeps its level, what it finds, and how often its
interval holds the truth: simulations, in a session of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from carb_metrics.families import chance_variance
from carb_metrics.interval import Interval
from carb_metrics.means import clustered_mean
from carb_metrics.ties import higher

LEVEL = "**Place win rate, level**: how often p < .05 for a scorer that does not read the place:"
POWER = (
    "**Place win rate, power**: how often p < .05 with planted knowledge. Beside it stands the "
    "place effect of CARB's earlier versions (z: the mean divided by the standard deviation "
    "between families, times 10):"
)
COVER = "**Place win rate, coverage**: how often the 95% interval holds the true rate:"
FAIL = "**Place win rate, failures**: the mean rate of scorers that fail on purpose:"
HIDE = (
    "**Place win rate, hidden losses**: how often the 95% interval lies above 50%. A scorer fails "
    "on the sets on which it would lose most, or on sets at random:"
)
BETTER = (
    "**Place win rate, two scorers, failures**: how often `compare` calls a scorer that fails "
    "better than one without knowledge, over 200 families of 4:"
)
RANK = (
    "**Place win rate, ranks, failures**: the mean rank of a scorer that fails among four that do "
    "not. The five rates are about 50, 55, 59, 62.5 and 66%, over 100 families of 4:"
)

pytestmark = pytest.mark.coverage

RUNS = 1_000
Scores = np.ndarray
Draw = Callable[[np.random.Generator, int, int, float], Scores]


def place_win(scores: Scores, if_failed: float = 0.5) -> np.ndarray:
    """(families,) the place win rate of (families, places, answers) scores, by its definition."""
    size = scores.shape[-1]
    won = compared(scores)
    won = np.where(np.isnan(won + won.swapaxes(1, 2)), if_failed, won)  # both of a pair, or none
    others = ~np.eye(size, dtype=bool)
    return won[:, others].mean(1)


def compared(scores: Scores) -> np.ndarray:
    """(families, other place, answer) whether an answer scores higher under its own place."""
    own = np.einsum("fii->fi", scores)
    return higher(own[:, None, :], scores)


def place_effect(scores: Scores) -> np.ndarray:
    """(families,) the right cells after the means of rows and columns, in standard deviations."""
    left = scores - scores.mean(1, keepdims=True)
    left = left - left.mean(2, keepdims=True)
    spread = np.sqrt((left**2).mean((1, 2)))
    diagonal = np.einsum("fii->f", left) / scores.shape[-1]
    return np.divide(diagonal, spread, out=np.zeros(len(scores)), where=spread > 1e-9)


def mean_of(values: np.ndarray, size: int, cluster: np.ndarray, effect: bool = False) -> Interval:
    n = np.full(len(values), size)
    if effect:
        most = np.sqrt(size - 1.0)
        return clustered_mean(values, np.zeros(len(n)), 1 / (n - 1.0), cluster, 0.95, (-most, most))
    return clustered_mean(values, np.full(len(n), 0.5), chance_variance(n), cluster, 0.95, (0, 1))


def likelihoods(rng: np.random.Generator, count: int, size: int, delta: float) -> Scores:
    """Heavy liking for answers, some for places, and noise of a cell."""
    return _additive(rng, count, size, delta, 0.5)


def tilted(rng: np.random.Generator, count: int, size: int, delta: float) -> Scores:
    """The same where the place moves all answers twice as far as the noise of a cell: a place win
    rate compares across places, and so loses what the place effect took out."""
    return _additive(rng, count, size, delta, 2.0)


def _additive(
    rng: np.random.Generator, count: int, size: int, delta: float, place: float
) -> Scores:
    liking = 3 * rng.normal(size=(count, 1, size)) + place * rng.normal(size=(count, size, 1))
    return rng.normal(size=(count, size, size)) + liking + delta * np.eye(size)


def logits(rng: np.random.Generator, count: int, size: int, delta: float) -> Scores:
    """Log probabilities of a choice among the answers of a set, with tails."""
    raw = 1.5 * rng.normal(size=(count, 1, size)) + delta * np.eye(size)
    raw = raw + rng.standard_t(4, size=(count, size, size)) / np.sqrt(2)
    return raw - np.log(np.exp(raw).sum(2, keepdims=True))


def ratings(rng: np.random.Generator, count: int, size: int, delta: float) -> Scores:
    """Whole marks from 1 to 5."""
    return np.clip(np.round(3 + likelihoods(rng, count, size, delta) / 3), 1, 5)


def letters(rng: np.random.Generator, count: int, size: int, delta: float) -> Scores:
    """One answer of each set is picked: 1, the others 0."""
    raw = likelihoods(rng, count, size, delta)
    return (raw == raw.max(2, keepdims=True)).astype(np.float64)


DRAWS: dict[str, Draw] = {
    "likelihoods": likelihoods,
    "likelihoods, moved by the place": tilted,
    "logits": logits,
    "ratings of 5 steps": ratings,
    "one letter": letters,
}
DESIGNS = {
    "60 clusters of 1": [1] * 60,
    "12 clusters of 1": [1] * 12,
    "6 clusters of 1": [1] * 6,
    "20 clusters of 4": [4] * 20,
    "10 clusters of 4 to 8": [4, 5, 6, 7, 8] * 2,
    "one of 20 among 60 of 1": [20, *[1] * 60],
    "one of 20 among 14 of 1: too few": [20, *[1] * 14],
}


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("kind", DRAWS)
def test_a_scorer_that_reads_no_place_is_rarely_told_from_chance(name, kind, cell):
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(len(DESIGNS[name])), DESIGNS[name])
    rejected = 0
    for _ in range(RUNS):
        scores = DRAWS[kind](rng, len(DESIGNS[name]), 4, 0.0)[cluster]
        change = rng.normal(size=(len(cluster), 4, 4)) * 0.1 * (kind[:4] in ("like", "logi"))
        found = mean_of(place_win(scores + change), 4, cluster)
        rejected += found.p is not None and found.p < 0.05
    cell(LEVEL, name, kind, rejected / RUNS)
    assert rejected / RUNS < 0.07


@pytest.mark.parametrize("size", [2, 3, 4, 6, 12])
@pytest.mark.parametrize("kind", DRAWS)
def test_planted_knowledge_is_found_as_often_as_by_the_place_effect(size, kind, cell):
    rng = np.random.default_rng(1)
    cluster = np.arange(100)
    delta = {2: 0.3, 3: 0.24, 4: 0.2, 6: 0.15, 12: 0.1}[size]
    delta *= {"ratings of 5 steps": 1.4, "one letter": 2.0}.get(kind, 1.0)
    many = DRAWS[kind](rng, 20_000, size, delta)
    win, effect = place_win(many) - 0.5, place_effect(many)
    z = [10 * float(values.mean() / values.std()) for values in (win, effect)]
    found = np.zeros(2)
    for _ in range(RUNS):
        scores = DRAWS[kind](rng, 100, size, delta)
        found[0] += mean_of(place_win(scores), size, cluster).p < 0.05
        found[1] += mean_of(place_effect(scores), size, cluster, effect=True).p < 0.05
    found /= RUNS
    row = f"{kind}, families of {size}"
    cell(POWER, row, "place win rate", found[0])
    cell(POWER, row, "place effect", found[1])
    cell(POWER, row, "z", z[0])
    cell(POWER, row, "z of the effect", z[1])
    # Fine scores lose up to 15% of z, coarse ones nothing; those that the place moves lose more.
    assert z[0] > (0.6 if kind == "likelihoods, moved by the place" else 0.85) * z[1]


READ = {
    "6 families": [1] * 6,
    "20 families": [1] * 20,
    "100 families": [1] * 100,
    "20 clusters of 4": [4] * 20,
    "10 clusters of 4 to 8": [4, 5, 6, 7, 8] * 2,
    "one of 20 among 60 of 1": [20, *[1] * 60],
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("share", [0.02, 0.05, 0.2, 0.5, 0.8, 0.95, 0.98])
def test_an_interval_holds_the_rate_of_a_scorer_that_reads_some_families(name, share, cell):
    """The others sit at chance exactly, all with the same answer liked everywhere; those of one
    cluster are read together."""
    rng = np.random.default_rng(2)
    held, clusters = 0, len(READ[name])
    cluster = np.repeat(np.arange(clusters), READ[name])
    for _ in range(RUNS):
        values = np.where(rng.random(clusters) < share, 1.0, 0.5)[cluster]
        found = mean_of(values, 4, cluster)
        held += found.low <= 0.5 + share / 2 <= found.high
    cell(COVER, name, f"read in {share:.0%}", held / RUNS)
    assert held / RUNS > 0.9


def test_failing_gains_nothing(cell):
    """A scorer fails where it is unsure, where its score is low, or on all but one set."""
    rng = np.random.default_rng(3)
    scores = likelihoods(rng, 20_000, 4, 0.5)
    low = np.where(scores < np.quantile(scores, 0.3), np.nan, scores)
    top = np.sort(scores, 2)
    unsure = np.where((top[..., -1] - top[..., -2] < 1.0)[..., None], np.nan, scores)
    one_set = np.where(np.arange(4)[:, None] > 1, np.nan, scores)
    blind = likelihoods(rng, 20_000, 4, 0.0)
    blind_low = np.where(blind < np.quantile(blind, 0.3), np.nan, blind)
    rates = {
        "never": scores,
        "where a score is low": low,
        "where it is unsure": unsure,
        "on two sets of four": one_set,
    }
    for name, one in rates.items():
        cell(FAIL, "planted knowledge", name, place_win(one).mean())
        assert place_win(one).mean() <= place_win(scores).mean()
    assert place_win(blind_low).mean() == pytest.approx(0.5, abs=0.003)


def failing_where_it_loses(scores: Scores, most: float) -> Scores:
    """The scores without the sets whose comparisons are lost most, at most a share of all sets."""
    won = compared(scores)
    size = scores.shape[-1]
    lost = 0.5 - (won + won.swapaxes(1, 2)) / 2
    gain = np.where(np.eye(size, dtype=bool), 0.0, lost).sum(2)
    gain = np.where(gain < gain.max(1, keepdims=True), gain / 2, gain)  # others gain less then
    worst = np.argsort(-gain, axis=None, kind="stable")[: int(most * gain.size)]
    fails = np.zeros(gain.size, dtype=bool)
    fails[worst] = gain.ravel()[worst] > 0
    return np.where(fails.reshape(gain.shape)[..., None], np.nan, scores)


@pytest.mark.parametrize("most", [1.0, 0.2, 0.05])
@pytest.mark.parametrize("size", [2, 4])
def test_failing_where_it_loses_is_seen_once_failures_count_as_lost(size, most, cell):
    rng = np.random.default_rng(4)
    cluster = np.arange(200)
    above = np.zeros(2)
    for _ in range(RUNS):
        scores = failing_where_it_loses(likelihoods(rng, 200, size, 0.0), most)
        for column, if_failed in enumerate((0.5, 0.0)):
            above[column] += mean_of(place_win(scores, if_failed), size, cluster).low > 0.5
    above /= RUNS
    row = f"no knowledge, families of {size}, at most {most:.0%} of the sets where it loses"
    cell(HIDE, row, "failures count half", above[0])
    cell(HIDE, row, "failures count as lost", above[1])
    assert above[1] < 0.05


def test_a_scorer_with_knowledge_that_fails_rarely_still_shows_it(cell):
    rng = np.random.default_rng(5)
    cluster = np.arange(200)
    for share in (0.01, 0.05, 0.1):
        shown = np.zeros(2)
        for _ in range(RUNS):
            scores = likelihoods(rng, 200, 4, 0.5)
            scores[rng.random((200, 4)) < share] = np.nan
            for column, if_failed in enumerate((0.5, 0.0)):
                shown[column] += mean_of(place_win(scores, if_failed), 4, cluster).low > 0.5
        shown /= RUNS
        row = f"knowledge, families of 4, {share:.0%} of the sets at random"
        cell(HIDE, row, "failures count half", shown[0])
        cell(HIDE, row, "failures count as lost", shown[1])
        assert shown[1] > 0.9 or share == 0.1


def failing_at_random(rng: np.random.Generator, scores: Scores, share: float) -> Scores:
    return np.where(rng.random(scores.shape[:2])[..., None] < share, np.nan, scores)


def is_better(a: Scores, b: Scores, a_failed: float) -> bool:
    """Whether the interval of a − b lies above 0, b without failures."""
    d = place_win(a, a_failed) - place_win(b)
    n = np.full(len(d), a.shape[-1])
    found = clustered_mean(
        d, np.zeros(len(d)), 2 * chance_variance(n), np.arange(len(d)), 0.95, (-1.0, 1.0)
    )
    return found.low > 0


@pytest.mark.parametrize("share", [1.0, 0.2, 0.05])
def test_who_fails_where_it_loses_is_not_called_better(share, cell):
    rng = np.random.default_rng(6)
    better = np.zeros(2)
    for _ in range(RUNS):
        a, b = likelihoods(rng, 200, 4, 0.0), likelihoods(rng, 200, 4, 0.0)
        a = failing_where_it_loses(a, share)
        half, lost = is_better(a, b, 0.5), is_better(a, b, 0.0)
        better += half, half and lost
    better /= RUNS
    row = f"no knowledge, at most {share:.0%} of the sets where it loses"
    cell(BETTER, row, "failures count half", better[0])
    cell(BETTER, row, "either way", better[1])
    assert better[1] < 0.04


def test_who_knows_and_fails_rarely_is_called_better(cell):
    rng = np.random.default_rng(7)
    for share in (0.0, 0.01, 0.05, 0.1):
        better = np.zeros(2)
        for _ in range(RUNS):
            a, b = likelihoods(rng, 200, 4, 0.5), likelihoods(rng, 200, 4, 0.0)
            a = failing_at_random(rng, a, share)
            half, lost = is_better(a, b, 0.5), is_better(a, b, 0.0)
            better += half, half and lost
        better /= RUNS
        row = f"knowledge, {share:.0%} of the sets at random"
        cell(BETTER, row, "failures count half", better[0])
        cell(BETTER, row, "either way", better[1])
        assert better[0] > 0.9
        assert better[1] > 0.7 or share > 0.01


FIELD = (0.0, 0.2, 0.35, 0.5, 0.65)
"""What is added to the right cells of five scorers."""


def rank_in_field(
    rng: np.random.Generator, who: int, fail: Callable[[Scores], Scores]
) -> np.ndarray:
    """The mean rank of one of ``FIELD`` that fails: where failures count half, and as lost."""
    ranks = np.zeros(2)
    for _ in range(RUNS // 5):
        field = [likelihoods(rng, 100, 4, delta) for delta in FIELD]
        field[who] = fail(field[who])
        for column, if_failed in enumerate((0.5, 0.0)):
            rates = [place_win(one, if_failed).mean() for one in field]
            ranks[column] += 1 + sum(rate > rates[who] for rate in rates)
    return ranks / (RUNS // 5)


def test_no_failing_improves_a_rank(cell):
    rng = np.random.default_rng(8)
    for share in (0.0, 0.05, 0.2, 1.0):
        half, lost = rank_in_field(rng, 0, lambda one, m=share: failing_where_it_loses(one, m))
        row = f"the worst, at most {share:.0%} of the sets where it loses"
        cell(RANK, row, "failures count half", half)
        cell(RANK, row, "failures count as lost", lost)
        assert lost > 4.9
    for share in (0.01, 0.05, 0.1):
        half, lost = rank_in_field(rng, 4, lambda one, m=share: failing_at_random(rng, one, m))
        row = f"the best, {share:.0%} of the sets at random"
        cell(RANK, row, "failures count half", half)
        cell(RANK, row, "failures count as lost", lost)
        assert half <= lost
