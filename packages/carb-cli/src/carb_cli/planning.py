"""What a run would do and cost, without doing it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from carb_cli import display
from carb_cli.labels import labels
from carb_data import BonSet, CarbError, Dataset
from carb_data.models import Frozen
from carb_scorers.spec import ParsedSpec, parse_spec, provider

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of text in a token, about what large multilingual vocabularies pack, and more than they need for Thai."""
INSTRUCTION_TOKENS = 120
"""What a judge's prompt adds to the question and the answers."""
OUTPUT_TOKENS = 512
"""Tokens that a judge who writes may write in a call, where the spec sets no ``max_tokens``."""


class ScorerPlan(Frozen):
    """What one scorer would do. Numbers are null for kinds whose way of working is not known here."""

    scorer: str
    calls: int | None = None
    """Forward passes of a local model, or requests to a server."""
    input_tokens: int | None = None
    """Estimated number of input tokens."""
    output_tokens: int | None = None
    """Largest number of output tokens, for models that write."""
    cost: float | None = None
    """Estimate, in the currency of the spec's ``price_in`` and ``price_out`` (per million tokens); null without."""


class RunPlan(Frozen):
    """What ``--dry-run`` prints."""

    data: tuple[str, ...]
    fingerprint: str
    sets: int
    responses: int
    perturbed: int
    """Perturbed texts, scored beside the responses."""
    cultures: dict[str, int]
    domains: dict[str, int]
    scorers: tuple[ScorerPlan, ...]

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
            (short[s.scorer], _n(s.calls), _n(s.input_tokens), _n(s.output_tokens), display.number(s.cost))
            for s in self.scorers
        ]
        display.table("Scorers", columns, rows, right=columns[1:])
        display.say(
            f"Tokens are estimated at {BYTES_PER_TOKEN} bytes of UTF-8 each; output is what may be written at most. "
            "Cost: in the currency of price_in and price_out (per million tokens) of a spec with backend=openai."
        )

    def sentence(self) -> str | None:
        """What the models will be asked and what that costs; null where only baselines score."""
        asked = [scorer for scorer in self.scorers if scorer.calls]
        if not asked:
            return None
        calls, tokens = (sum(getattr(s, name) or 0 for s in asked) for name in ("calls", "input_tokens"))
        costs = [scorer.cost for scorer in asked if scorer.cost is not None]
        price = f" and cost about {sum(costs):,.2f}" if costs else ""
        return f"That takes {calls:,} calls of the model, with about {tokens:,} tokens to read{price}."


def plan_run(data: Sequence[str], dataset: Dataset, scorers: Sequence[str]) -> RunPlan:
    """Plan a run.

    Args:
        data: names of the data sets.
        dataset: the sets to score, after all filters.
        scorers: the scorers' specs.
    """
    return RunPlan(
        data=tuple(data),
        fingerprint=dataset.fingerprint,
        sets=len(dataset),
        responses=sum(len(item.responses) for item in dataset),
        perturbed=sum(len(item.perturbed) for item in dataset),
        cultures=_counts(item.culture for item in dataset),
        domains=_counts(str(item.domain) for item in dataset),
        scorers=tuple(_plan_scorer(parse_spec(spec), dataset) for spec in scorers),
    )


def tokens(text: str) -> int:
    """Estimate of the tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _plan_scorer(spec: ParsedSpec, dataset: Dataset) -> ScorerPlan:
    provider(spec.kind)  # an unknown kind is a mistake that a plan should find
    if spec.kind == "baseline":
        return ScorerPlan(scorer=spec.name, calls=0, input_tokens=0, output_tokens=0)
    if spec.kind not in ("classifier", "implicit", "judge", "think"):
        return ScorerPlan(scorer=spec.name)
    calls = input_tokens = 0
    for number, size in _calls(spec, dataset):
        calls += number
        input_tokens += number * size
    writes = spec.kind == "think" or (spec.kind == "judge" and spec.options.get("read") == "generate")
    longest = _number(spec, "max_tokens", OUTPUT_TOKENS)
    output_tokens = calls * (int(longest or 0) if writes else int(spec.kind == "judge"))
    prices = _number(spec, "price_in"), _number(spec, "price_out")
    cost = None
    if spec.options.get("backend") == "openai" and prices != (None, None):
        cost = (input_tokens * (prices[0] or 0.0) + output_tokens * (prices[1] or 0.0)) / 1e6
    return ScorerPlan(scorer=spec.name, calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)


def _number(spec: ParsedSpec, option: str, default: float | None = None) -> float | None:
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
    each = 2 if spec.kind == "judge" and orders != "one" else 1
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


def _counts(values: Iterable[str]) -> dict[str, int]:
    """How often each value is there, in the order of the values."""
    return dict(sorted(Counter(values).items()))


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _n(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
