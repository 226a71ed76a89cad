"""What a run would do and cost, without doing it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.config import RunConfig
from carb_cli.labels import labels
from carb_cli.output import Output, OutputPart, counts
from carb_data import BonSet, CarbError, Dataset
from carb_scorers.spec import ParsedSpec, parse_spec, provider

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of text in a token, about what large multilingual vocabularies pack, and more than they need for Thai."""
INSTRUCTION_TOKENS = 120
"""What a judge's prompt adds to the question and the answers."""
OUTPUT_TOKENS = 512
"""Tokens that a judge who writes may write in a call, where the spec sets no ``max_tokens``."""


class ScorerPlan(OutputPart):
    """What one scorer would do. Numbers are null for kinds whose way of working is not known here."""

    scorer: str
    calls: int | None
    """Forward passes of a local model, or requests to a server."""
    input_tokens: int | None
    """Estimated number of input tokens."""
    output_tokens: int | None
    """Largest number of output tokens, for models that write."""
    cost: float | None
    """Estimate, in the currency of the price; null without a price and for models that run here."""


class RunPlan(Output):
    """Output of ``carb run --dry-run --json``."""

    schema_: Literal["carb.run.plan/1"] = Field(default="carb.run.plan/1", alias="schema")
    data: tuple[str, ...]
    fingerprint: str
    sets: int
    responses: int
    perturbed: int
    """Perturbed texts, scored beside the responses."""
    cultures: dict[str, int]
    domains: dict[str, int]
    scorers: tuple[ScorerPlan, ...]
    cost: float | None
    """Sum over the scorers that have one."""

    def show(self) -> None:
        """Print for people."""
        display.pairs(
            "Plan; nothing was scored",
            {
                "data": ", ".join(self.data),
                "sets": f"{self.sets:,}",
                "responses": f"{self.responses:,}, and {self.perturbed:,} perturbed",
                "cultures": _listed(self.cultures),
                "domains": _listed(self.domains),
            },
        )
        columns = ["scorer", "calls", "input tokens", "output tokens", "cost"]
        short = labels(s.scorer for s in self.scorers)
        rows = [
            (short[s.scorer], _n(s.calls), _n(s.input_tokens), _n(s.output_tokens), _money(s.cost))
            for s in self.scorers
        ]
        display.table("Scorers", columns, rows, right=columns[1:])
        display.say(
            f"Tokens are estimated at {BYTES_PER_TOKEN} bytes of UTF-8 each; output is what may be written at most."
        )
        if self.cost is not None:
            display.say(f"Cost of the paid APIs: about {self.cost:,.2f} in the currency of the price.")


def plan_run(
    wanted: RunConfig, dataset: Dataset, *, price_in: float | None = None, price_out: float | None = None
) -> RunPlan:
    """Plan a run.

    Args:
        wanted: the options of the run.
        dataset: the sets to score, after all filters.
        price_in: price of a million input tokens of a paid API; null means that no cost is shown.
        price_out: price of a million output tokens of a paid API; null means that no cost is shown.
    """
    scorers = tuple(_plan_scorer(parse_spec(name), dataset, price_in, price_out) for name in wanted.scorer)
    costs = [scorer.cost for scorer in scorers if scorer.cost is not None]
    return RunPlan(
        data=wanted.data,
        fingerprint=dataset.fingerprint,
        sets=len(dataset),
        responses=sum(len(item.responses) for item in dataset),
        perturbed=sum(len(item.perturbed) for item in dataset),
        cultures=counts(item.culture for item in dataset),
        domains=counts(str(item.domain) for item in dataset),
        scorers=scorers,
        cost=sum(costs) if costs else None,
    )


def tokens(text: str) -> int:
    """Estimate of the tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _plan_scorer(spec: ParsedSpec, dataset: Dataset, price_in: float | None, price_out: float | None) -> ScorerPlan:
    provider(spec.kind)  # an unknown kind is a mistake that a plan should find
    if spec.kind == "baseline":
        return ScorerPlan(scorer=str(spec), calls=0, input_tokens=0, output_tokens=0, cost=None)
    if spec.kind not in ("classifier", "implicit", "judge", "think"):
        return ScorerPlan(scorer=str(spec), calls=None, input_tokens=None, output_tokens=None, cost=None)
    calls = input_tokens = 0
    for number, size in _calls(spec, dataset):
        calls += number
        input_tokens += number * size
    writes = spec.kind == "think" or (spec.kind == "judge" and spec.options.get("read") == "generate")
    longest = _number(spec, "max_tokens", OUTPUT_TOKENS)
    output_tokens = calls * (int(longest or 0) if writes else int(spec.kind == "judge"))
    prices = _number(spec, "price_in", price_in), _number(spec, "price_out", price_out)
    cost = None
    if spec.options.get("backend") == "openai" and prices != (None, None):
        cost = (input_tokens * (prices[0] or 0.0) + output_tokens * (prices[1] or 0.0)) / 1e6
    return ScorerPlan(scorer=str(spec), calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)


def _number(spec: ParsedSpec, option: str, default: float | None) -> float | None:
    """An option of a spec as a number.

    Raises:
        CarbError: it is none, negative or infinite.
    """
    text = spec.options.get(option)
    try:
        value = default if text is None else float(text)
    except ValueError:
        raise CarbError(f"Scorer '{spec}': {option}={text} is not a number.") from None
    if value is not None and not 0 <= value < math.inf:
        raise CarbError(f"Scorer '{spec}': {option} must be 0 or more, got {value:g}.")
    return value


def _calls(spec: ParsedSpec, dataset: Dataset) -> Iterator[tuple[int, int]]:
    """``(number of calls, tokens of each)``."""
    mode = "pairwise" if spec.kind == "think" else spec.options.get("mode", "listwise")
    compares = spec.kind == "think" or (spec.kind == "judge" and mode != "pointwise")
    orders = spec.options.get("orders", "both" if mode == "pairwise" else "one")
    each = 1 if spec.kind == "judge" and orders == "one" else 2 if spec.kind == "judge" else 1
    if spec.kind == "implicit":
        each = 1 if spec.options.get("ref", "none") == "none" else 2
    for item in dataset:
        prompt = tokens(item.prompt_text) + (INSTRUCTION_TOKENS if spec.kind in ("judge", "think") else 0)
        if not compares:
            for response in (*item.responses, *item.perturbed):
                yield each, prompt + tokens(response.text)
            continue
        for texts in _shown_together(item):
            if mode == "pairwise":
                turns = 1 if orders == "one" else 2
                yield from ((turns, prompt + a + b) for i, a in enumerate(texts) for b in texts[i + 1 :])
            else:
                yield {"rotated": len(texts), "both": 2}.get(orders, 1), prompt + sum(texts)


def _shown_together(item: BonSet) -> Iterator[list[int]]:
    """Tokens of the candidates of each request: a perturbed text takes the place of its original."""
    sizes = {r.id: tokens(r.text) for r in item.responses}
    yield list(sizes.values())
    for variant in item.perturbed:
        assert variant.original is not None
        yield list({**sizes, variant.original: tokens(variant.text)}.values())


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _n(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _money(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"
