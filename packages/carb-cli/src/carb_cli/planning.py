"""The work and cost of a run, worked out in advance."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from carb_cli import display
from carb_cli.display import money, note, say
from carb_cli.json_output import print_json
from carb_cli.labels import labels
from carb_cli.selection import spread
from carb_cli.weights import Weights, weights
from carb_data import CarbError, Dataset, Frozen, read_options
from carb_scorers import ParsedSpec, Progress, parse_spec, plan_of
from carb_scorers.blind import blind
from carb_scorers.models.server_options import ServerOptions
from carb_scorers.run import run

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of text in a token, about what large multilingual vocabularies pack, and more than
they need for Thai."""
TIMED = 10
"""Sets, at most, from which the time of a run is estimated."""


class ScorerPlan(Frozen):
    """The work of one scorer. Numbers are null for kinds whose way of working is not known
    here."""

    scorer: str
    calls: int | None = None
    """Forward passes of a local model, or requests to a server."""
    input_tokens: int | None = None
    """Estimated number of input tokens."""
    output_tokens: int | None = None
    """Largest number of output tokens, for models that write."""
    cost: float | None = None
    """Estimate, in the currency of the spec's ``price_in`` and ``price_out`` (per million tokens);
    null without."""
    weights: Weights = Weights()
    seconds: float | None = None
    """Estimated time without loading; null where it was not measured."""


class RunPlan(Frozen):
    """The output of ``--dry-run``."""

    data: tuple[str, ...]
    fingerprint: str
    sets: int
    responses: int
    perturbed: int
    """Perturbed texts, scored beside the responses."""
    scorers: tuple[ScorerPlan, ...]

    def show(self, *, json: bool) -> None:
        """Print for programs or for people."""
        if json:
            print_json(self)
            return
        texts = f"{self.responses:,} responses and {self.perturbed:,} perturbed texts"
        say(f"Plan; no score was kept. {', '.join(self.data)}: {self.sets:,} sets with {texts}.")
        columns = ["scorer", "calls", "input tokens", "output tokens", "cost", "weights", "time"]
        short = labels(s.scorer for s in self.scorers)
        rows = [
            (
                short[s.scorer],
                display.whole(s.calls),
                display.whole(s.input_tokens),
                display.whole(s.output_tokens),
                money(s.cost),
                s.weights,
                "–" if s.seconds is None else display.duration(s.seconds),
            )
            for s in self.scorers
        ]
        display.table("Scorers", columns, rows, right=columns[1:])
        say(
            f"Input tokens: bytes of UTF-8 / {BYTES_PER_TOKEN}. Output tokens: the most that may "
            "be written. Cost: in the currency of price_in and price_out (per million tokens) of a "
            f"spec with backend=openai. Time: from {TIMED} sets, which carb run --dry-run scores "
            "if the weights are on this disk; elsewhere, carb run --limit 12 prints it."
        )

    def sentence(self) -> str | None:
        """The calls of the models and their cost; null where only baselines score."""
        asked = [scorer for scorer in self.scorers if scorer.calls]
        if not asked:
            return None
        calls = sum(scorer.calls or 0 for scorer in asked)
        tokens = sum(scorer.input_tokens or 0 for scorer in asked)
        costs = [scorer.cost for scorer in asked if scorer.cost is not None]
        price = f" and cost about {money(sum(costs))}" if costs else ""
        distinct = dict.fromkeys(str(scorer.weights) for scorer in asked)
        sizes = ", ".join(distinct)
        return (
            f"That takes {calls:,} calls of the model, with about {tokens:,} tokens to read{price}."
            f" Weights: {sizes}."
        )


def plan_run(data: Sequence[str], dataset: Dataset, scorers: Sequence[str]) -> RunPlan:
    """Plan a run.

    Args:
        data: names of the data sets.
        dataset: the sets to score, after all filters.
        scorers: the scorers' specs.
    """
    parsed = list(map(parse_spec, scorers))
    return RunPlan(
        data=tuple(data),
        fingerprint=dataset.fingerprint,
        sets=len(dataset),
        responses=sum(len(item.responses) for item in dataset),
        perturbed=sum(len(item.perturbed) for item in dataset),
        scorers=tuple(
            _plan_scorer(spec, dataset).changed(weights=size)
            for spec, size in zip(parsed, weights(parsed), strict=True)
        ),
    )


def check_specs(scorers: Sequence[str]) -> None:
    """Refuse a misspelt kind, option or value before data and models are read."""
    for spec in scorers:
        plan_of(parse_spec(spec))


def timed(plan: RunPlan, dataset: Dataset, scorers: Sequence[str]) -> RunPlan:
    """The plan with the time of each scorer whose weights are on this disk, from a few sets that it
    scores now."""
    some = spread(dataset, TIMED)
    planned = []
    for one, spec in zip(plan.scorers, scorers, strict=True):
        seconds = None
        if one.weights.on_disk and not one.weights.to_fetch:
            note(f"{one.scorer}: {len(some)} sets are scored, to measure the time.")
            seconds = _seconds_of(spec, some)
        if seconds is not None:
            seconds *= len(dataset) / max(len(some), 1)
        planned.append(one.changed(seconds=seconds))
    return plan.changed(scorers=tuple(planned))


def _seconds_of(scorer: str, some: Dataset) -> float | None:
    """How long a scorer takes for some sets, once it is loaded; null where it cannot score them,
    for a reason that is printed."""
    times: list[float] = []

    def on_progress(_state: Progress) -> None:
        times.append(time.monotonic())

    with TemporaryDirectory() as folder:
        try:
            work = partial(run, on_progress=on_progress)
            record = anyio.run(work, some, [scorer], Path(folder))
        except CarbError as error:
            note(str(error))
            return None
    if not record.scorers[0].scored:
        return None
    return times[-1] - times[0]


def _plan_scorer(spec: ParsedSpec, dataset: Dataset) -> ScorerPlan:
    planned = plan_of(spec)
    if planned is None:
        return ScorerPlan(scorer=spec.name)
    asks = planned.asks
    asked = []
    if asks is not None:
        asked = [
            sum(map(_tokens, texts))
            for item in dataset
            for blinded in blind(item, seed=0, comparative=planned.comparative, told=True)
            for texts in asks(blinded.request)
        ]
    calls = len(asked)
    input_tokens = sum(asked)
    output_tokens = calls * planned.longest
    return ScorerPlan(
        scorer=spec.name,
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=_cost(spec, input_tokens, output_tokens),
    )


def _cost(spec: ParsedSpec, input_tokens: int, output_tokens: int) -> float | None:
    """The cost of tokens at the prices of a spec with a server.

    Raises:
        CarbError: a price is no number.
    """
    given = {name: text for name, text in spec.options.items() if name.startswith("price_")}
    prices = read_options(ServerOptions, f"Scorer '{spec.name}'", given)
    if not given or spec.options.get("backend") != "openai":
        return None
    read = input_tokens * (prices.price_in or 0.0)
    written = output_tokens * (prices.price_out or 0.0)
    return (read + written) / 1e6


def _tokens(text: str) -> int:
    """Estimate of the tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
