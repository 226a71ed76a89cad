"""The prompts and texts of judges, from the journals of runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from carb_data import BonSet, CarbError
from carb_scorers import Candidate, ScoreRequest, ScorerSpec, read_journal, request_name


@dataclass(slots=True)
class JudgeTexts:
    """The texts of one judge about each set, and the orders of its prompts."""

    texts: dict[str, str] = field(default_factory=dict)
    """By request."""
    seed: int = 0
    """The seed of the run, on which the names of its requests depend."""
    asked: tuple[tuple[int, ...], ...] = ()
    """The order of the answers in each question, as positions in the given order. A judge that is
    asked in both orders has (0, 1, 2, 3) and (3, 2, 1, 0)."""

    def about(self, item: BonSet) -> str:
        """Its text about an unperturbed set."""
        return self.texts.get(request_name(item.id, self.seed), "")


def written(folders: Sequence[Path]) -> dict[str, JudgeTexts]:
    """By scorer; those that wrote nothing and were shown nothing side by side are left out.

    It explains, and no number depends on it, so a journal that is gone or damaged gives what can be
    read of it.
    """
    by_scorer: dict[str, JudgeTexts] = {}
    for folder in folders:
        for journal in sorted((folder / "journal").glob("*.jsonl")):
            try:
                head, results = read_journal(journal)
            except (OSError, ValueError, CarbError):
                continue
            one = JudgeTexts(
                {key: result.rationale for key, result in results.items() if result.rationale},
                head.seed,
            )
            shown = next(
                (result.presentations for result in results.values() if result.presentations), ()
            )
            one.asked = tuple(tuple(int(key) - 1 for key in each.order) for each in shown)
            if one.texts or one.asked:
                by_scorer[head.spec.name] = one
    return by_scorer


def sent(spec: ScorerSpec, items: Iterable[BonSet]) -> dict[str, list[tuple[str, str]]]:
    """The first question to a scorer, by culture, language and number of answers, on which a
    judge's question may depend. For a scorer of single answers the key is empty: every question is
    alike.

    Args:
        spec: the scorer; empty where its facts or form are not here. The kinds are named, since
            only the built-in ones have a form that is known here.
        items: the sets that it judged.

    Returns:
        turns of role and text. ``⟦Q⟧`` stands for the set's question; ``⟦0⟧``, ``⟦1⟧`` … stand for
        its answers as given.
    """
    if spec.kind in ("classifier", "implicit") and "facts" not in spec.parameters:
        return {
            "": [
                ("user", "⟦Q⟧"),
                ("assistant: each answer in turn, in the model's chat template if any", "⟦0⟧"),
            ]
        }
    if spec.kind != "judge" or "facts" in spec.parameters:
        return {}
    from carb_scorers.judge import JudgeOptions, form_of

    known = {
        key: value for key, value in spec.parameters.items() if key in JudgeOptions.model_fields
    }
    if not known:
        return {}
    turns_of: dict[str, list[tuple[str, str]]] = {}
    try:
        asks = form_of(JudgeOptions.model_validate(known)).asks
        for culture, language, size in dict.fromkeys(
            (one.culture, one.language, len(one.responses)) for one in items
        ):
            given = tuple(
                Candidate(id=str(n), text=f"⟦{n}⟧") for n in range(size if spec.comparative else 1)
            )
            request = ScoreRequest(
                request_id="shown",
                prompt="⟦Q⟧",
                candidates=given,
                culture=culture,
                language=language,
            )
            turns = asks(request)[0].prompt.messages
            turns_of[f"{culture}/{language}/{size}"] = [(turn.role, turn.content) for turn in turns]
    except (CarbError, ValueError):  # the form, its rubric or its words are not here any more
        return {}
    return turns_of
