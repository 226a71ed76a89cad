"""Several scorers as one: ``ensemble:mean?of=SPEC;SPEC`` or ``ensemble:majority?of=SPEC;SPEC``.

Within a member's spec, ``&`` is written ``%26`` (and ``%`` as ``%25``), or the members stand in a file, a spec a
line: ``ensemble:mean?file=members.txt``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from carb_data import CarbError
from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, failed
from carb_scorers.rounding import equal_made_equal
from carb_scorers.specs import ScorerOptions, open_scorer, read_options

Rule = Callable[[Sequence[Mapping[str, float]]], dict[str, float]]
"""From each member's scores of one item to the ensemble's."""

_NO_SPREAD = 1e-12
"""A member's standard deviation up to which its scores are the same: the mean of a constant may be rounded."""


class EnsembleOptions(ScorerOptions):
    """Options of ``ensemble:RULE``."""

    of: str | None = None
    """Members' specs, joined by ``;``."""
    file: str | None = None
    """A file with a member's spec a line; empty lines and lines from ``#`` on are skipped."""


def mean(members: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean over the members of (score - item mean) / item standard deviation (population, ddof 0).

    A member that gives all candidates the same score adds 0 to each: one whose standard deviation is at most 1e-12 of
    its largest absolute score (of 1, where that is smaller).
    """
    standardised = []
    for scores in members:
        centre = math.fsum(scores.values()) / len(scores)
        spread = math.sqrt(math.fsum((value - centre) ** 2 for value in scores.values()) / len(scores))
        differ = spread > _NO_SPREAD * max(1.0, *map(abs, scores.values()))
        standardised.append({key: (value - centre) / spread if differ else 0.0 for key, value in scores.items()})
    return _tied({key: math.fsum(scores[key] for scores in standardised) / len(members) for key in members[0]})


def majority(members: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Share of the members that put a candidate first; a member with k equal firsts gives 1/k to each."""
    votes = dict.fromkeys(members[0], 0.0)
    for scores in members:
        best = max(scores.values())
        first = [key for key, value in scores.items() if value == best]
        for key in first:
            votes[key] += 1.0 / len(first)
    return _tied({key: value / len(members) for key, value in votes.items()})


def _tied(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores, without the differences that rounding alone makes."""
    return dict(zip(scores, equal_made_equal(list(scores.values())), strict=True))


RULES: dict[str, Rule] = {"mean": mean, "majority": majority}


class EnsembleScorer:
    """Asks every member and combines their scores of an item; an item that a member failed is an error row."""

    def __init__(self, spec: ScorerSpec, members: Sequence[Scorer], rule: Rule) -> None:
        self.spec = spec
        self._members = tuple(members)
        self._rule = rule

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``."""
        by_member = [await member.score(requests) for member in self._members]
        return [self._combined(request, own) for request, *own in zip(requests, *by_member, strict=True)]

    async def aclose(self) -> None:
        """Close all members, also where closing one fails."""
        async with AsyncExitStack() as stack:
            for member in self._members:
                stack.push_async_callback(member.aclose)

    def _combined(self, request: ScoreRequest, results: Sequence[ScoreResult]) -> ScoreResult:
        usages = [result.usage for result in results if result.usage is not None]
        usage = sum(usages, Usage()) if usages else None
        for member, result in zip(self._members, results, strict=True):
            error = result.error or next(iter(result.errors.values()), None)
            if error is not None:
                return failed(request, error.kind, f"{member.spec.name}: {error.message}", usage)
        texts = [result.rationale for result in results if result.rationale]
        return ScoreResult(
            request_id=request.request_id,
            scores=self._rule([result.scores for result in results]),
            rationale="\n\n".join(texts) or None,
            usage=usage,
        )


def pace(members: Sequence[Scorer]) -> int | None:
    """How many requests may be in flight: as many as the member with the lowest limit takes."""
    return min((m.spec.in_flight for m in members if m.spec.in_flight is not None), default=None)


def open_ensemble(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``ensemble:mean?of=...`` or ``ensemble:majority?of=...``.

    Raises:
        CarbError: unknown rule, no members, a member given twice, or a member that cannot be opened.
    """
    read = read_options(EnsembleOptions, name, options)
    if target not in RULES:
        raise CarbError(f"Scorer '{name}': unknown rule '{target}'. There are {', '.join(RULES)}.")
    specs = _members(name, read)
    members = [open_scorer(spec) for spec in specs]
    spec = ScorerSpec(
        name=name,
        kind="ensemble",
        parameters={"rule": target, "members": [member.spec.model_dump(mode="json") for member in members]},
        comparative=True,  # standardising and voting look at all candidates of an item
        in_flight=pace(members),
    )
    return EnsembleScorer(spec, members, RULES[target])


def _members(name: str, options: EnsembleOptions) -> list[str]:
    if (options.of is None) == (options.file is None):
        raise CarbError(f"Scorer '{name}': name the members, either with of=SPEC;SPEC or with file=PATH.")
    if options.file is not None:
        try:
            lines = Path(options.file).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CarbError(f"Scorer '{name}': cannot read {options.file}: {error}") from None
        specs = [line.partition("#")[0].strip() for line in lines]
    else:
        specs = [spec.strip() for spec in (options.of or "").split(";")]
    specs = [spec for spec in specs if spec]
    if len(specs) < 2 or len(set(specs)) < len(specs):
        raise CarbError(f"Scorer '{name}': an ensemble has at least two members, each named once; got {specs}.")
    return specs
