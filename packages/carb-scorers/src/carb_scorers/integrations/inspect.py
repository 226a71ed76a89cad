"""A scorer as a scorer of Inspect (``inspect_ai``)."""

from typing import Any

from carb_data import CarbError, Conversation, require
from carb_scorers.scorer import Scorer
from carb_scorers.spec import asked_about
from carb_scorers.texts import Opened, Scored, Text, as_prompt, score_texts


def as_inspect_scorer(
    scorer: Scorer | str, *, culture: str | None = None, language: str | None = None, seed: int = 0
) -> Any:
    """A scorer for Inspect's ``Task(scorer=...)``.

    A scorer that rates each text on its own gives its rating of the model's output. A scorer that
    compares (a judge) gets the output among the sample's targets. The value is then the output's
    score minus that of the best target, in units of the scorer. Above 0, the output is preferred to
    every target.

    Args:
        scorer: a spec string (opened when first used) or a ``Scorer``.
        culture: The culture of samples whose metadata have no ``culture``.
        language: The language of samples whose metadata have no ``language``.
        seed: The seed of the order in which texts are presented.

    Returns:
        An ``inspect_ai.scorer.Scorer`` with the metrics ``mean`` and ``stderr``. A sample that
        could not be scored is unscored (``Score.unscored``), with the reason.

    Raises:
        MissingExtraError: inspect_ai is not installed.
        CarbError: the argument is no scorer. When a sample is scored, too: the scorer cannot be
            opened, or reads a culture or language that is missing. Or it compares, and the sample
            has no target.
    """
    inspect = require("inspect_ai.scorer", "carb-scorers[inspect]")
    opened = Opened(scorer)

    # Inspect is imported when first used, so mypy does not see its decorators' types.
    metrics = [inspect.mean(), inspect.stderr()]

    @inspect.scorer(metrics=metrics, name="carb")  # type: ignore[untyped-decorator]
    def carb() -> Any:
        async def score(state: Any, target: Any) -> Any:
            used = opened.get()
            metadata = state.metadata or {}
            about = asked_about(
                used.spec,
                metadata.get("culture") or culture,
                metadata.get("language") or language,
                f"add it to the metadata of sample '{state.sample_id}', or give "
                "as_inspect_scorer({name}=...).",
            )
            output = state.output.completion
            references = []
            if used.spec.comparative:
                references = [text for text in target if text.strip()]
            if used.spec.comparative and not references:
                raise CarbError(
                    f"'{opened.name}' compares texts, and sample '{state.sample_id}' has no "
                    "target to compare with."
                )
            texts = [Text(_prompt(state), text, *about) for text in (output, *references)]
            scored = await score_texts(used, texts, seed=seed)
            return _compared(inspect, output, *scored)

        return score

    return carb()


def _compared(inspect: Any, answer: str, rated: Scored, *references: Scored) -> Any:
    """The score of an answer less that of its best reference, or why it has none."""
    if rated.score is None:
        assert rated.error is not None  # it says why there is no score
        reason = f"{rated.error.kind}: {rated.error.message}"
        return inspect.Score.unscored(reason="grader_failed", answer=answer, explanation=reason)
    known = [one.score for one in references if one.score is not None]
    value = rated.score - max(known, default=0.0)
    return inspect.Score(value=value, answer=answer, explanation=rated.rationale)


def _prompt(state: Any) -> str | Conversation:
    given = state.input
    if isinstance(given, str):
        return given
    messages = [{"role": one.role, "content": one.text} for one in given]
    return as_prompt(messages)
