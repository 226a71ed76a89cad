"""What a set may be: one chosen, unique ids, perturbed texts that name their original."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from carb_data import BonSet, Culture, Provenance, Response, Role


def response(name: str, role: str = "rejected", **changes) -> dict:
    return {"id": name, "text": f"text {name}", "role": role, "language": "th", **changes}


def content(*responses: dict, perturbed: tuple[dict, ...] = (), **changes) -> dict:
    return {
        "id": "s",
        "culture": "thai",
        "domain": "safety",
        "language": "th",
        "prompt": "p",
        "responses": list(responses),
        "perturbed": list(perturbed),
        "provenance": {"source": "t", "license": "CC0-1.0", "method": "authored"},
        **changes,
    }


CHOSEN, WRONG = response("a", "chosen"), response("b")
CC = {"perturbation": "CC", "original": "a"}
SYSTEM, USER, ASSISTANT = (
    {"role": role, "content": "x"} for role in ("system", "user", "assistant")
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            content(CHOSEN, response("c", "chosen"), WRONG),
            "exactly one response must be 'chosen', found 2",
        ),
        (content(WRONG, response("c")), "exactly one response must be 'chosen', found 0"),
        (content(CHOSEN), "at least 2"),
        (content(CHOSEN, WRONG, response("b")), "unique within a set; repeated: b"),
        (
            content(CHOSEN, WRONG, perturbed=(response("a", "chosen", **CC),)),
            "unique within a set; repeated: a",
        ),
        (content(CHOSEN, WRONG, response("c", **CC)), "belong into 'perturbed'"),
        (content(CHOSEN, WRONG, perturbed=(response("c"),)), "needs 'perturbation' and 'original'"),
        (content(CHOSEN, WRONG, perturbed=(response("c", perturbation="CC"),)), "go together"),
        (
            content(CHOSEN, WRONG, perturbed=(response("c", "chosen", **{**CC, "original": "z"}),)),
            "no response has",
        ),
        (
            content(CHOSEN, WRONG, perturbed=(response("c", **CC),)),
            "must have the role of its original",
        ),
        (content(CHOSEN, WRONG, prompt=" \n"), "pattern"),
        (content(CHOSEN, WRONG, culture="Thai"), "pattern"),
        (content(CHOSEN, WRONG, language="thai language"), "pattern"),
        (content(CHOSEN, WRONG, id="a\nb"), "pattern"),
        (content(CHOSEN, WRONG, note="x"), "Extra inputs"),
        (content(CHOSEN, WRONG, prompt=[USER, ASSISTANT]), "must end with a turn of the user"),
        (content(CHOSEN, WRONG, prompt=[USER, SYSTEM, USER]), "only the first turn"),
        (content(CHOSEN, WRONG, prompt=[]), "at least 1"),
        (
            content(CHOSEN, WRONG, prompt=[{"role": "tool", "content": "x"}]),
            "'system', 'user' or 'assistant'",
        ),
    ],
)
def test_what_is_no_set_is_refused_with_the_reason(value, reason):
    with pytest.raises(ValidationError, match=reason):
        BonSet.model_validate(value)


def test_a_conversation_as_one_text_names_who_speaks():
    talk = BonSet.model_validate(content(CHOSEN, WRONG, prompt=[SYSTEM, USER, ASSISTANT, USER]))
    assert talk.prompt_text.endswith("assistant: x\n\nuser: x")


@given(item=st.from_type(BonSet))
def test_chosen_and_rejected_divide_the_responses(item):
    assert item.chosen.role is Role.CHOSEN
    assert {item.chosen, *item.rejected} == set(item.responses)
    assert len(item.rejected) == len(item.responses) - 1


@given(item=st.from_type(BonSet))
def test_the_source_item_is_the_sources_own_or_the_family_or_the_set(item):
    if item.provenance.source_id is None:
        assert item.source_item == (
            f"set:{item.id}" if item.family is None else f"family:{item.family}"
        )
    else:
        assert item.source_item == f"{item.provenance.source}:{item.provenance.source_id}"


@pytest.mark.parametrize("model", [BonSet, Response, Culture, Provenance])
def test_models_are_frozen_and_closed(model):
    assert model.model_config["frozen"]
    assert model.model_config["extra"] == "forbid"


@given(st.from_type(BonSet))
def test_a_set_in_less_memory_is_the_same_set(item: BonSet) -> None:
    whole = BonSet.model_validate_json(item.model_dump_json())
    small = BonSet.model_validate_json(item.model_dump_json()).compacted()
    assert small == whole
    assert small.model_dump(exclude_unset=True) == whole.model_dump(exclude_unset=True)
    changed = small.model_copy(update={"topic": "other"})
    assert (changed.topic, small.topic, small.model_fields_set) == (
        "other",
        whole.topic,
        whole.model_fields_set,
    )
    alike = BonSet.model_validate_json(item.model_dump_json()).compacted()
    assert alike.model_fields_set is small.model_fields_set
    assert (
        alike.provenance.license is small.provenance.license or len(small.provenance.license) > 64
    )


def test_a_set_is_shown_on_one_screen() -> None:
    item = BonSet.model_validate(
        {
            "id": "tea/1",
            "culture": "english-gb",
            "domain": "commonsense",
            "language": "en",
            "prompt": "What goes in first?\n" + "word " * 5_000,
            "responses": [
                {"id": "r", "text": "Milk.", "role": "chosen", "language": "en"},
                *(
                    {"id": f"w{n}", "text": "Salt. " * 99, "role": "rejected", "language": "en"}
                    for n in range(40)
                ),
            ],
            "provenance": {"source": "t", "license": "CC0-1.0", "method": "authored"},
        }
    )
    shown = repr(item).splitlines()
    assert len(shown) <= 24
    assert sum(len(line) // 80 + 1 for line in shown) <= 40
    assert "tea/1" in shown[0]
    assert "english-gb" in shown[1]
    assert "What goes in first? word" in shown[2]
    assert shown[3] == "  + r: Milk."
    assert shown[4].startswith("  - w0: Salt.")
    assert "31 more" in shown[-1]


def test_an_editor_completes_no_deprecated_name() -> None:
    completed = set(dir(BonSet.model_validate(content(response("a", "chosen"), response("b")))))
    assert completed >= {"prompt_text", "chosen", "model_dump", "model_validate"}
    assert not completed & {"dict", "json", "copy", "construct", "parse_obj", "schema", "validate"}
