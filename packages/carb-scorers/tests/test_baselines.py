"""Surface baselines."""

from functools import partial
from pathlib import Path

import pytest

from carb_data import CarbError, load
from carb_scorers import best_of_n, evaluate, open_scorer, score
from carb_scorers.baseline import label_rule, overlap_rule, random_rule
from fake_scorer import request

REQUEST = request("x", prompt="Was?", culture="german", language="de")


def test_random_is_a_function_of_prompt_and_text() -> None:
    rule = partial(random_rule, seed=0)
    other = REQUEST.model_copy(update={"request_id": "b", "culture": "thai"})
    assert rule(REQUEST, "ja") == rule(other, "ja")
    assert rule(REQUEST, "ja") != rule(REQUEST, "nein")
    assert rule(REQUEST, "ja") != random_rule(REQUEST, "ja", seed=1)
    values = [rule(REQUEST, str(i)) for i in range(4000)]
    assert all(0 <= v < 1 for v in values)
    assert abs(sum(values) / len(values) - 0.5) < 0.02  # standard deviation of the mean: 0.0046


def test_label_looks_for_the_culture() -> None:
    assert label_rule(REQUEST, "In Germany people queue.") == 1.0
    assert label_rule(REQUEST, "In Deutschland steht man an.") == 1.0
    assert label_rule(REQUEST, "People queue.") == 0.0


def test_overlap_is_the_share_of_the_text_that_the_question_has() -> None:
    asked = request("x", prompt="Wann fährt der Zug?", language="de")
    assert overlap_rule(asked, "der Zug") == 1.0
    assert overlap_rule(asked, "morgen") == 0.0
    assert open_scorer("baseline:overlap").spec.model == "overlap"


def test_label_needs_a_culture_to_look_for() -> None:
    """The message named a culture 'unknown', which nobody had written."""
    spec = "baseline:label"
    for ask in (lambda: best_of_n(spec, "Was?", ["a", "b"]), lambda: score(spec, ["Was?"], ["a"])):
        with pytest.raises(CarbError, match=r"^baseline:label .*culture=") as caught:
            ask()
        assert "unknown" not in str(caught.value)


def test_label_refuses_sets_without_a_culture(tmp_path: Path) -> None:
    """They were ties, half of them right, of a scorer that had nothing to look for."""
    file = tmp_path / "pairs.csv"
    file.write_text("prompt,chosen,rejected\nHow do they greet?,With a wai.,With a kiss.\n")
    with pytest.raises(CarbError, match=r"^baseline:label .*--culture"):
        evaluate(load(file, language="en"), "baseline:label")
    table = evaluate(load(file, culture="thai", language="en"), "baseline:label")
    assert table.frame["score"].to_list() == [0.0, 0.0]


def test_language_compares_with_the_prompt() -> None:
    pytest.importorskip("lingua", reason="needs the extra carb-scorers[language]")
    from carb_scorers.baseline import language_rule

    assert (
        language_rule(REQUEST, "Das ist ein ganz gewöhnlicher deutscher Satz über das Wetter.")
        == 1.0
    )
    assert (
        language_rule(REQUEST, "This is a perfectly ordinary English sentence about the weather.")
        == 0.0
    )


@pytest.mark.parametrize("target", ["random", "length", "language", "label"])
def test_specs_record_what_is_needed_to_repeat_them(target: str) -> None:
    spec = open_scorer(f"baseline:{target}").spec
    assert (spec.kind, spec.model, spec.comparative) == ("baseline", target, False)
    assert spec.revision
    assert spec.parameters == ({"seed": 0} if target == "random" else {})
