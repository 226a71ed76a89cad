"""What a run would do and cost, without doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.config import RunConfig
from carb_cli.output import Output, Part
from carb_data import BonSet, Dataset
from carb_scorers.specs import ParsedSpec, parse_spec, provider

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of text in a token. Multilingual tokenizers pack 4 to 6, so the estimate errs on the high side."""
INSTRUCTION_TOKENS = 120
"""What a judge's prompt adds to the question and the answers."""
OUTPUT_TOKENS = {"logprob": 1, "generate": 256}
"""Tokens that a judge writes in a call, by ``read``, where the spec sets no ``max_tokens``."""


class ScorerPlan(Part):
    """What one scorer would do. Numbers are null for kinds whose way of working is not known here."""

    scorer: str
    calls: int | None
    """Forward passes of a local model, or requests to a server."""
    input_tokens: int | None
    """Estimate."""
    output_tokens: int | None
    """Estimate, of models that write."""
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
                "cultures": _counts(self.cultures),
                "domains": _counts(self.domains),
            },
        )
        columns = ["scorer", "calls", "input tokens", "output tokens", "cost"]
        rows = [
            (display.short(s.scorer), _n(s.calls), _n(s.input_tokens), _n(s.output_tokens), _money(s.cost))
            for s in self.scorers
        ]
        display.table("Scorers", columns, rows, right=columns[1:])
        display.say(f"Tokens are estimated at {BYTES_PER_TOKEN} bytes of UTF-8 each, which errs on the high side.")
        if self.cost is not None:
            display.say(f"Cost of the paid APIs: about {self.cost:,.2f} in the currency of the price.")


def plan_run(
    wanted: RunConfig, dataset: Dataset, *, price_in: float | None = None, price_out: float | None = None
) -> RunPlan:
    """Plan a run.

    Args:
        wanted: the options of the run.
        dataset: the selected sets.
        price_in: of a million input tokens of a paid API.
        price_out: of a million output tokens.
    """
    scorers = tuple(_plan_scorer(parse_spec(name), dataset, price_in, price_out) for name in wanted.scorer)
    costs = [scorer.cost for scorer in scorers if scorer.cost is not None]
    return RunPlan(
        data=wanted.data,
        fingerprint=dataset.fingerprint,
        sets=len(dataset),
        responses=sum(len(item.responses) for item in dataset),
        perturbed=sum(len(item.perturbed) for item in dataset),
        cultures=dict(sorted(Counter(item.culture for item in dataset).items())),
        domains=dict(sorted(Counter(str(item.domain) for item in dataset).items())),
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
    if spec.kind not in ("classifier", "implicit", "judge"):
        return ScorerPlan(scorer=str(spec), calls=None, input_tokens=None, output_tokens=None, cost=None)
    calls = input_tokens = 0
    for number, size in _calls(spec, dataset):
        calls += number
        input_tokens += number * size
    read = spec.options.get("read", "logprob") if spec.kind == "judge" else ""
    written = int(spec.options.get("max_tokens", OUTPUT_TOKENS.get(read, 0))) if read == "generate" else bool(read)
    output_tokens = calls * written
    cost = None
    if spec.options.get("backend") == "openai" and (price_in is not None or price_out is not None):
        cost = (input_tokens * (price_in or 0.0) + output_tokens * (price_out or 0.0)) / 1e6
    return ScorerPlan(scorer=str(spec), calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)


def _calls(spec: ParsedSpec, dataset: Dataset) -> Iterator[tuple[int, int]]:
    """``(number of calls, tokens of each)``."""
    models = 2 if spec.kind == "implicit" and spec.options.get("ref", "none") != "none" else 1
    for item in dataset:
        if spec.kind == "judge":
            for texts in _shown_together(item):
                yield from _judge_calls(spec, tokens(item.prompt), texts)
        else:
            for response in (*item.responses, *item.perturbed):
                yield models, tokens(item.prompt) + tokens(response.text)


def _shown_together(item: BonSet) -> Iterator[list[int]]:
    """Tokens of the candidates of each request: a perturbed text takes the place of its original."""
    sizes = {r.id: tokens(r.text) for r in item.responses}
    yield list(sizes.values())
    for variant in item.perturbed:
        assert variant.original is not None
        yield list({**sizes, variant.original: tokens(variant.text)}.values())


def _judge_calls(spec: ParsedSpec, prompt: int, texts: list[int]) -> Iterator[tuple[int, int]]:
    mode, orders = spec.options.get("mode", "listwise"), spec.options.get("orders", "one")
    fixed = INSTRUCTION_TOKENS + prompt
    if mode == "pointwise":
        yield from ((1, fixed + text) for text in texts)
    elif mode == "pairwise":
        each = 1 if orders == "one" else 2
        pairs = [a + b for i, a in enumerate(texts) for b in texts[i + 1 :]]
        if spec.options.get("schedule") == "knockout":
            mean = sum(pairs) // max(len(pairs), 1)
            yield each * (len(texts) - 1), fixed + mean
        else:
            yield from ((each, fixed + pair) for pair in pairs)
    else:
        turns = {"rotated": len(texts), "both": 2}.get(orders, 1)
        yield turns, fixed + sum(texts)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _n(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _money(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"
