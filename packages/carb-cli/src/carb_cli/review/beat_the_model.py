"""Beat the model: people write questions about their place, a scorer is asked blind, and then other people are."""

from __future__ import annotations

import sqlite3
from typing import Literal

from carb_cli import display
from carb_cli.review.asking import ReviewItem
from carb_cli.review.findings import tally, voted
from carb_cli.review.review_file import GivenAnswer, given
from carb_data import BonSet, CarbError, Dataset
from carb_scorers import Scorer, best_of_n


def verdict(scorer: Scorer, item: BonSet) -> Literal["fooled", "not fooled", "undecided", "failed"]:
    """Ask a scorer, which does not see which answer is right.

    It is ``fooled`` where the wrong answer has the higher score, and ``undecided`` where both have the same. Whatever
    goes wrong is said to the organiser, and ``failed`` is no verdict.
    """
    texts = [item.chosen.text, item.rejected[0].text]
    try:
        pick = best_of_n(scorer, item.prompt, texts, culture=item.culture, language=item.language)
        if pick.index is not None:
            tie = pick.scores[0] == pick.scores[1]
            return "undecided" if tie else ("not fooled" if pick.index == 0 else "fooled")
        reason = pick.error.message if pick.error else ""
    except Exception as error:  # a third party's scorer may raise anything
        reason = f"{type(error).__name__}: {error}"
    display.advice(f"The model gave no answer: {reason}")
    return "failed"


def written(db: sqlite3.Connection) -> Dataset:
    """The questions that people wrote, with the votes of those who were asked them.

    ``provenance.tier`` is ``human-voted`` where more than half of the other people picked the writer's answer, else
    ``human-written``; ``provenance.notes`` has the numbers, and whether a model was fooled. Names are not in it.

    Raises:
        CarbError: nobody wrote one.
    """
    found = given(db, written=True)
    if not found:
        raise CarbError("Nobody has written a question yet; `carb review serve --beat` lets people write.")
    models = {row["id"]: row["model"] for row in db.execute("SELECT id, model FROM item")}
    return Dataset(_read_by_others(item, answers, models[item.id]) for item, answers in found)


def _read_by_others(item: ReviewItem, answers: list[GivenAnswer], model: str) -> BonSet:
    counted = tally(item, answers)
    agree = sum(one.event.answer.best == item.key for one in answers)
    notes = f"{agree} of {counted.reviews} other people agree" if counted.reviews else "nobody else has read it"
    made = voted(item.set, counted)
    parts = [made.provenance.notes, "written by a person of the place", notes, model]
    update = {
        "notes": "; ".join(part for part in parts if part),
        "tier": "human-voted" if 2 * agree > counted.reviews else "human-written",
    }
    return made.model_copy(update={"provenance": made.provenance.model_copy(update=update)})
