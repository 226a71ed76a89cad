"""Surface-only baselines: how far shortcuts alone get."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

from carb_data import CarbError, Frozen, as_text, closest, in_language, names_culture, read_options
from carb_data.surface import overlap
from carb_scorers.scorer import Scorer, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.spec import Kind, Options, Planned

Rule = Callable[[ScoreRequest, str], float]
"""``(request, candidate's text) -> score``."""


class TextRule:
    """A scorer that applies one rule to each candidate's text."""

    def __init__(self, spec: ScorerSpec, rule: Rule) -> None:
        self.spec = spec
        self._rule = rule

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """The rule's number for each candidate."""
        results = []
        for request in requests:
            scores = {one.id: self._rule(request, one.text) for one in request.candidates}
            results.append(ScoreResult(request_id=request.request_id, scores=scores))
        return results

    async def aclose(self) -> None:
        """Nothing to give back."""


class _RandomOptions(Frozen):
    seed: int = 0


def random_rule(request: ScoreRequest, text: str, *, seed: int = 0) -> float:
    """Uniform in [0, 1), a hash of seed, prompt and text: the same text always gets the same
    score."""
    content = f"{seed}\0{as_text(request.prompt)}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(content).digest()[:7], "big") / 2**56


# one signature for all rules
def length_rule(request: ScoreRequest, text: str) -> float:  # noqa: ARG001
    """Length in characters."""
    return float(len(text))


def language_rule(request: ScoreRequest, text: str) -> float:
    """1 where the text is in the prompt's language, else 0."""
    return float(in_language(text, request.language))


def label_rule(request: ScoreRequest, text: str) -> float:
    """1 where the text names the culture, its country or its people, else 0."""
    culture = request.named_culture
    if culture is None:
        raise CarbError(
            "baseline:label looks for the names of a culture, and this text has none. Give "
            "culture=, or --culture for the sets of a file."
        )
    return float(names_culture(text, culture))


def overlap_rule(request: ScoreRequest, text: str) -> float:
    """Share of the text's character 3-grams that the prompt has: words that both share, in
    languages without spaces, too."""
    return overlap(as_text(request.prompt), (text,))[0]


def _open_baseline(name: str, target: str, options: Options) -> Scorer:
    """Open ``baseline:random?seed=0``, ``baseline:length``, ``baseline:overlap``,
    ``baseline:language`` or ``baseline:label``."""
    rules: dict[str, Rule] = {
        "random": random_rule,
        "length": length_rule,
        "overlap": overlap_rule,
        "language": language_rule,
        "label": label_rule,
    }
    taken: type[Frozen] = Frozen
    if target == "random":
        taken = _RandomOptions
    read = read_options(taken, f"Scorer '{name}'", options)
    if isinstance(read, _RandomOptions):
        rules["random"] = partial(random_rule, seed=read.seed)
    if target not in rules:
        raise CarbError(
            f"Unknown baseline '{target}'.{closest(target, rules)} There are {', '.join(rules)}."
        )
    spec = ScorerSpec(
        name=name,
        kind="baseline",
        model=target,
        revision=version("carb-scorers"),
        parameters=read.model_dump(),
        comparative=False,
    )
    return TextRule(spec, rules[target])


def _plan_baseline(name: str, target: str, options: Options) -> Planned:
    _open_baseline(name, target, options)
    return Planned()


open_baseline = Kind(
    _open_baseline,
    _plan_baseline,
    reads_language=lambda spec: spec.model == "language",
)
