"""What a run would do and cost, without doing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel

from carb_cli import display
from carb_cli.labels import labels
from carb_data import BonSet, Dataset
from carb_data.models import Frozen
from carb_data.validation import read_options
from carb_scorers.blind import blind
from carb_scorers.judge import Form, JudgeOptions, form_of
from carb_scorers.models.server_options import ServerOptions
from carb_scorers.spec import ParsedSpec, parse_spec, provider

_O = TypeVar("_O", bound=BaseModel)

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of text in a token, about what large multilingual vocabularies pack, and more than
they need for Thai."""


class ScorerPlan(Frozen):
    """What one scorer would do. Numbers are null for kinds whose way of working is not known
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


class RunPlan(Frozen):
    """What ``--dry-run`` prints."""

    data: tuple[str, ...]
    fingerprint: str
    sets: int
    responses: int
    perturbed: int
    """Perturbed texts, scored beside the responses."""
    scorers: tuple[ScorerPlan, ...]

    def show(self) -> None:
        """Print for people."""
        texts = f"{self.responses:,} responses and {self.perturbed:,} perturbed texts"
        display.say(
            f"Plan; nothing was scored. {', '.join(self.data)}: {self.sets:,} sets with {texts}."
        )
        columns = ["scorer", "calls", "input tokens", "output tokens", "cost"]
        short = labels(s.scorer for s in self.scorers)
        rows = [
            (
                short[s.scorer],
                _n(s.calls),
                _n(s.input_tokens),
                _n(s.output_tokens),
                display.money(s.cost),
            )
            for s in self.scorers
        ]
        display.table("Scorers", columns, rows, right=columns[1:])
        display.say(
            f"Tokens are estimated at {BYTES_PER_TOKEN} bytes of UTF-8 each; output is what "
            "may be written at most. "
            "Cost: in the currency of price_in and price_out (per million tokens) of a "
            "spec with backend=openai."
        )

    def sentence(self) -> str | None:
        """What the models will be asked and what that costs; null where only baselines score."""
        asked = [scorer for scorer in self.scorers if scorer.calls]
        if not asked:
            return None
        calls, tokens = (
            sum(getattr(s, name) or 0 for s in asked) for name in ("calls", "input_tokens")
        )
        costs = [scorer.cost for scorer in asked if scorer.cost is not None]
        price = f" and cost about {display.money(sum(costs))}" if costs else ""
        return (
            f"That takes {calls:,} calls of the model, with about {tokens:,} tokens to read{price}."
        )


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
        scorers=tuple(_plan_scorer(parse_spec(spec), dataset) for spec in scorers),
    )


def _plan_scorer(spec: ParsedSpec, dataset: Dataset) -> ScorerPlan:
    provider(spec.kind)  # an unknown kind is a mistake that a plan should find
    if spec.kind == "baseline":
        return ScorerPlan(scorer=spec.name, calls=0, input_tokens=0, output_tokens=0)
    if spec.kind not in ("classifier", "implicit", "judge", "think"):
        return ScorerPlan(scorer=spec.name)
    prices = _named(ServerOptions, spec, "price_in", "price_out")
    judge = None
    if spec.kind in (
        "judge",
        "think",
    ):  # a Think-as-Locals judge is asked as one that writes about pairs
        preset = (
            {"mode": "pairwise", "read": "generate", "orders": "both"}
            if spec.kind == "think"
            else {}
        )
        judge = _named(JudgeOptions, spec, *JudgeOptions.model_fields, **preset)
    if judge is None:
        twice = spec.kind == "implicit" and spec.options.get("ref", "none") != "none"
        pairs = [
            (item.prompt_text, one.text)
            for item in dataset
            for one in (*item.responses, *item.perturbed)
        ]
        asked = [_tokens(prompt) + _tokens(answer) for prompt, answer in pairs] * (
            2 if twice else 1
        )
        longest = 0
    else:
        form = form_of(judge)
        asked = [
            tokens
            for item in dataset
            for tokens in _judged(form, item, comparative=judge.mode != "pointwise")
        ]
        longest = judge.max_tokens if judge.read == "generate" else 1
    calls, input_tokens = len(asked), sum(asked)
    output_tokens = calls * longest
    cost = None
    if spec.options.get("backend") == "openai" and (prices.price_in, prices.price_out) != (
        None,
        None,
    ):
        cost = (
            input_tokens * (prices.price_in or 0.0) + output_tokens * (prices.price_out or 0.0)
        ) / 1e6
    return ScorerPlan(
        scorer=spec.name,
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost,
    )


def _judged(form: Form, item: BonSet, *, comparative: bool) -> Iterator[int]:
    """The tokens that a judge reads in each call."""
    for blinded in blind(item, seed=0, comparative=comparative):
        for ask in form.asks(blinded.request):
            yield sum(_tokens(turn["content"]) for turn in ask.prompt.messages)


def _named(model: type[_O], spec: ParsedSpec, *names: str, **preset: str) -> _O:
    """Those of a spec's options that have these names; the other ones are left to whoever opens the
    scorer.

    Raises:
        CarbError: an option has no such value.
    """
    given = {name: spec.options[name] for name in names if name in spec.options}
    return read_options(model, f"Scorer '{spec.name}'", preset | given)


def _tokens(text: str) -> int:
    """Estimate of the tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _n(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
