"""What a construction run will do, and what it did."""

from __future__ import annotations

from carb_data.construct.calls import ModelUsage
from carb_data.models import Frozen


class PlannedStep(Frozen):
    """The calls of one step to one model. Token numbers are estimates (4 bytes of UTF-8 a token)."""

    step: str
    model: str
    least_calls: int
    """Calls if every first answer is good and the journal is empty."""
    most_calls: int
    """Calls if every text is written as often as ``attempts`` allows."""
    prompt_tokens: int
    """Estimate for ``least_calls``."""
    most_completion_tokens: int
    """``max_tokens`` for each of ``most_calls``."""
    most_cost: float
    """Upper bound by the prices in the config, prompt tokens estimated."""


class Plan(Frozen):
    """What a construction run will ask for; made without asking any model."""

    references: int
    sets: dict[str, int]
    """Sets to make by ``culture / domain``."""
    unused: dict[str, int]
    """Reference to reason: how many references no set can be made from."""
    steps: tuple[PlannedStep, ...]
    journal_entries: int
    """Answers that are in the journal already; those that this run needs are not paid for again."""

    @property
    def most_cost(self) -> float:
        """Upper bound of the whole run's cost."""
        return sum(step.most_cost for step in self.steps)

    def __str__(self) -> str:
        lines = [f"{sum(self.sets.values())} sets from {self.references} references"]
        lines += [f"  {cell}: {count}" for cell, count in self.sets.items()]
        lines += [f"  not used: {count} ({reason})" for reason, count in self.unused.items()]
        for step in self.steps:
            lines.append(
                f"{step.step} by {step.model}: {step.least_calls} to {step.most_calls} calls, about "
                f"{step.prompt_tokens} prompt tokens or more, at most {step.most_completion_tokens} written ones, "
                f"cost at most about {step.most_cost:.2f}"
            )
        lines.append(
            f"journal: {self.journal_entries} answers at hand; cost of the run at most about {self.most_cost:.2f}"
        )
        return "\n".join(lines)


class FailedSet(Frozen):
    """A set that could not be made."""

    reference: str
    """Id of the reference."""
    step: str
    reasons: tuple[str, ...]
    """One for each attempt."""


class ConstructReport(Frozen):
    """What a construction run made and what it cost."""

    out: str
    references: int
    built: int
    counts: dict[str, int]
    """Sets built by ``culture / domain``."""
    failed: tuple[FailedSet, ...]
    """Sets that could not be made, in the order of the references; ``built`` and these sum to the references used."""
    unused: dict[str, int]
    """Reason to number of references that no set could be made from."""
    discarded: dict[str, int]
    """Reason to number of texts that were written again, most frequent first."""
    usage: dict[str, ModelUsage]
    """Usage by model."""

    @property
    def cost(self) -> float:
        """Cost of this run's calls."""
        return sum(usage.cost for usage in self.usage.values())
