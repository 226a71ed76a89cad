"""What a scorer is told: the set's own text, and the culture only where its spec says so."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import anyio
import pytest

from carb_data import UNSPECIFIED, BonSet, CarbError, Dataset, cultures, load
from carb_scorers import ScoreRequest, ScoreResult, evaluate, open_scorer
from carb_scorers.blind import blind
from carb_scorers.judge import JudgeOptions, form_names, form_of, read_form
from carb_scorers.judge.judge import with_defaults
from carb_scorers.scorer import told_culture
from carb_scorers.testing import example_dataset
from fake_scorer import FakeScorer
from fake_scorer import request as about

FORMS = [(form, mode) for form in form_names() for mode in read_form(form).modes]
NAMED = ["culture", "mr3", "mr3-binary", "prometheus"]


def prompts(request: ScoreRequest, **options: str) -> list[str]:
    asks = form_of(JudgeOptions.model_validate(with_defaults(options))).asks(request)
    return ["\n".join(turn.content for turn in ask.prompt.messages) for ask in asks]


@cache
def all_wordings() -> tuple[tuple[BonSet, BonSet], ...]:
    """Sets of the seed whose place is named, each with the one in which it is implied."""
    implied = {item.id: item for item in load("carb-seed") if item.place == "implied"}
    pairs = ((item, implied.get(item.id.replace("/", "+implied/"))) for item in load("carb-seed"))
    return tuple((one, other) for one, other in pairs if other is not None)


def wordings() -> tuple[tuple[BonSet, BonSet], ...]:
    """Some of them."""
    return all_wordings()[::89]


def test_both_wordings_show_their_answers_in_one_order() -> None:
    """Those of single sets, too, which have no family."""
    for pair in all_wordings():
        named, implied = (
            next(blind(item, seed=0, comparative=True)).request.candidates for item in pair
        )
        assert named == implied, pair[0].id
    assert any(named.family is None for named, _ in all_wordings())


@pytest.mark.parametrize(("form", "mode"), FORMS)
def test_the_prompts_of_two_wordings_differ_only_where_their_questions_do(
    form: str, mode: str
) -> None:
    assert len(wordings()) > 15
    for pair in wordings():
        named, implied = (
            [
                text.replace(item.prompt_text, "QUESTION")
                for text in prompts(
                    next(blind(item, seed=0, comparative=mode != "pointwise")).request,
                    form=form,
                    mode=mode,
                )
            ]
            for item in pair
        )
        assert named == implied
        name = cultures.name(pair[1].culture)
        assert not any(name in text for text in implied)


@pytest.mark.parametrize(("form", "mode"), FORMS)
@pytest.mark.parametrize("culture", ["english-au", "unspecified"])
def test_no_form_names_the_culture_unless_the_spec_tells_it(
    form: str, mode: str, culture: str
) -> None:
    request = about("FIRST", "SECOND", culture=culture)
    plain = prompts(request, form=form, mode=mode)
    assert not any("Australia" in text or "unspecified" in text for text in plain)
    told = prompts(request, form=form, mode=mode, tell="culture")
    if form in NAMED and culture != "unspecified":
        assert all("Australia" in text for text in told)
    else:
        assert told == plain


def test_by_default_the_question_is_about_who_asks() -> None:
    (text,) = prompts(about("FIRST", "SECOND", culture="thai"))
    assert "best for the person who asks" in text
    assert "Thai" not in text
    (told,) = prompts(about("FIRST", "SECOND", culture="thai"), tell="culture")
    assert "Thai culture" in told


def test_a_form_without_a_place_for_the_culture_cannot_tell_it(tmp_path: Path) -> None:
    with pytest.raises(CarbError, match=r"form=rm-r1.*tell=culture"):
        open_scorer(f"judge:{tmp_path}?form=rm-r1&tell=culture")


def test_a_form_of_ones_own_that_must_name_the_culture_is_refused(tmp_path: Path) -> None:
    form = tmp_path / "mine.toml"
    form.write_text("title = 'mine'\n[listwise]\nuser = '{{ culture }}: {{ prompt }}'\n")
    with pytest.raises(CarbError, match=r"listwise\.user of 'mine'.*tell=culture"):
        open_scorer(f"judge:{tmp_path}?form={form}&read=generate")


class Recorder(FakeScorer):
    """Remembers what it was told."""

    def __init__(self, **parameters: str) -> None:
        super().__init__(parameters=parameters)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return await super().score(requests)


def asked(scorer: FakeScorer, dataset: Dataset) -> Iterator[ScoreRequest]:
    evaluate(dataset, [scorer])
    return iter(scorer.requests)


def test_any_scorer_is_told_the_culture_only_where_its_spec_says_so() -> None:
    data = example_dataset(2)
    assert {request.culture for request in asked(Recorder(), data)} == {UNSPECIFIED}
    assert {request.culture for request in asked(Recorder(tell="culture"), data)} == {"english"}


def test_a_request_id_says_nothing_about_its_set() -> None:
    data = example_dataset(3)
    ids = [request.request_id for request in asked(Recorder(), data)]
    assert len(set(ids)) == len(ids)
    assert not any(item.id in name for item in data for name in ids)


def test_a_mark_says_which_scorers_are_told() -> None:
    marked = {
        spec: told_culture(open_scorer(spec).spec)
        for spec in ("baseline:random", "baseline:length", "baseline:label")
    }
    assert marked == {"baseline:random": False, "baseline:length": False, "baseline:label": True}
    assert told_culture(open_scorer("baseline:length?facts=carb-seed@3").spec)


def test_the_label_baseline_still_finds_the_names() -> None:
    request = about("Thai food", "food", culture="thai")
    (result,) = anyio.run(open_scorer("baseline:label").score, [request])
    assert list(result.scores.values()) == [1.0, 0.0]
