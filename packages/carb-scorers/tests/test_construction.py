"""Construction: sets are made by the method, paid for once, whatever a server does and wherever it
is interrupted."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="needs carb-scorers[api]")
pytest.importorskip("lingua", reason="needs carb-data[checks]")

from carb_data import CarbError, DataError, Dataset, Domain
from carb_scorers.generate import (
    ConstructConfig,
    Reference,
    construct,
    read_construct_config,
)
from carb_scorers.generate.construction import mismatched
from openai_server import chat, reply

FOODS = {
    "thai": "People eat rice with a spoon and a fork at most meals in the evening.",
    "german": "People eat bread with cheese and cold cuts at most meals in the evening.",
    "japanese": "People eat rice with chopsticks from a small bowl in the evening.",
    "korean": "People eat rice with a metal spoon and soup beside it in the evening.",
    "spanish": "People eat late, often after ten, with shared plates in the evening.",
}


def references(count_each: int = 2) -> list[Reference]:
    found = []
    for culture, n in itertools.product(FOODS, range(count_each)):
        own = {"id": f"{culture}-{n}", "culture": culture, "text": f"{FOODS[culture]} ({n})"}
        book = {
            "source": "book",
            "source_id": f"p{culture}{n}",
            "license": "CC-BY-4.0",
            "method": "authored",
        }
        found.append(
            Reference(
                **own, domain=Domain.COMMONSENSE, topic="food", language="en", provenance=book
            )
        )
    return found


def writer(_number: int, body: dict) -> dict:
    """A model that does as it is told."""
    prompt = body["messages"][0]["content"]
    if "Write one question" in prompt:
        return chat("How do people eat in the evening?")
    text = re.search(r"Reference material:\n\n(.*?)\n\nQuestion:", prompt, re.DOTALL)[1]
    return chat(f"“{text[:-4]} as told by {body['model']}.”")


def config_for(
    url: str, tmp_path: Path, rows: list[Reference] | None = None, **changes
) -> ConstructConfig:
    path = tmp_path / "references.jsonl"
    path.write_text("\n".join(r.model_dump_json() for r in rows or references()), encoding="utf-8")
    asked = f"url={url}&retries=2&price_in=1&price_out=10"
    base = {
        "references": path,
        "question": f"openai:asker?{asked}",
        "chosen": f"openai:strong?{asked}",
        "rejected": (f"openai:weak-1?{asked}", f"openai:weak-2?{asked}"),
        "window": (0.2, 0.98),
    }
    return ConstructConfig.model_validate({**base, **changes})


def test_sets_are_made_by_the_method_and_paid_once(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    seen = []
    server = serve(writer)
    config = config_for(server.url, tmp_path)
    report = construct(
        config, tmp_path / "sets.jsonl", progress=lambda *numbers: seen.append(numbers)
    )
    asked = len(server.bodies)
    first = (tmp_path / "sets.jsonl").read_bytes()
    again = construct(config, tmp_path / "sets.jsonl")
    assert len(server.bodies) == asked == 50
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer sk-very-secret"}
    assert again.cost == 0
    assert (tmp_path / "sets.jsonl").read_bytes() == first
    assert "sk-very-secret" not in "".join(path.read_text() for path in tmp_path.iterdir()) + repr(
        report
    )
    dataset = Dataset.load(tmp_path / "sets.jsonl")
    assert len(dataset) == 10
    assert report.made == {f"{culture} / commonsense": 2 for culture in sorted(FOODS)}
    assert report.cost == pytest.approx(50 * (12 * 1.0 + 3 * 10.0) / 1e6)
    assert seen[-1] == (10, 10, 0)
    for item in dataset:
        assert item.prompt == "How do people eat in the evening?"
        assert item.chosen.culture == item.culture
        assert item.chosen.generator.startswith("openai:strong")
        assert (
            len({response.culture for response in item.responses}) == 4
        )  # three different other cultures
        for response in item.responses:
            assert response.text.startswith(FOODS[response.culture][:20])
        assert (item.provenance.method, item.provenance.license) == ("generated", "CC-BY-4.0")
        steps = json.loads(item.provenance.notes)["steps"]
        assert [step["step"] for step in steps] == [
            "question",
            "chosen",
            "rejected-1",
            "rejected-2",
            "rejected-3",
        ]


def test_after_an_interruption_only_what_is_missing_is_asked(serve, tmp_path):
    """Interrupted after every single answer in turn, each answer is still asked for once."""
    paid: Counter[str] = Counter()
    left = 99  # answers until the key is refused

    def counting(number, body):
        nonlocal left
        left -= 1
        if left < 0:
            return reply({"error": {"message": "no such key"}}, 401)
        paid[json.dumps(body, sort_keys=True)] += 1
        return writer(number, body)

    server = serve(counting)
    config = config_for(server.url, tmp_path, limit=1)
    construct(config, tmp_path / "whole.jsonl")
    needed, stops = len(paid), 0
    paid.clear()
    for _ in range(needed):
        left = 1
        try:
            construct(config, tmp_path / "sets.jsonl")
        except CarbError:
            stops += 1
            assert not (tmp_path / "sets.jsonl").exists()
    assert stops == needed - 1
    assert set(paid.values()) == {1}
    assert (tmp_path / "sets.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("Many people eat.", "length"),
        ("These jumbled foxes vex my quiz now and then, but never the judge at all", "off topic"),
        ("{chosen}", "nearly the same as another answer"),
    ],
)
def test_bad_wrong_answers_are_written_again(serve, tmp_path, bad, reason):
    first: Counter[object] = Counter()

    def spoiled(number, body):
        if body["model"].startswith("weak"):
            first[re.search(r"Question:.*", body["messages"][0]["content"])[0], body["seed"]] += 1
            if len(first) == 1:
                return chat(bad.replace("{chosen}", FOODS["thai"] + " as told by strong"))
        return writer(number, body)

    server = serve(spoiled)
    config = config_for(server.url, tmp_path, limit=1, window=(0.45, 0.98))
    report = construct(config, tmp_path / "sets.jsonl")
    assert (sum(report.made.values()), report.discarded) == (1, {reason: 1})
    with pytest.raises(CarbError, match=r"Not one set could be made.*off topic"):
        construct(config.model_copy(update={"window": (0.999, 1.0)}), tmp_path / "none.jsonl")


def test_references_are_checked(serve, tmp_path):
    known = references(1)[0].model_copy(update={"question": "What is eaten at night?"})
    lone = known.model_copy(update={"id": "lone", "domain": Domain.VALUES})
    server = serve(writer)
    config = config_for(server.url, tmp_path, [known, *references(1)[1:], lone])
    report = construct(config, tmp_path / "sets.jsonl")
    assert report.skipped == {"no reference of another culture in its domain": 1}
    assert (
        Dataset.load(tmp_path / "sets.jsonl")["constructed/thai-0"].prompt
        == "What is eaten at night?"
    )
    good = known.model_dump_json()
    config.references.write_text(f'{good}\n{{"id": "x"}}\nnonsense\n{good}\n')
    with pytest.raises(DataError) as caught:
        construct(config, tmp_path / "sets.jsonl")
    assert {problem.line for problem in caught.value.problems} == {2, 3, 4}

    def at(culture: str, topic: str) -> Reference:
        return known.model_copy(update={"id": culture + topic, "culture": culture, "topic": topic})

    others = [
        at("spanish-es", "food"),
        at("spanish", "x"),
        at("thai", "x"),
        at("thai", "food"),
        at("german", "food"),
    ]
    order = mismatched(at("spanish-mx", "food"), others, seed=3)
    assert [r.topic for r in order] == [
        "food",
        "food",
        "x",
    ]  # no variety; the same topic first, cultures in turn


TOML = """
references = "refs.jsonl"
window = [0.1, 0.9]
question = "openai:m?url=http://localhost:8000/v1"
chosen = "hf:folder?one_line=true"
rejected = ["openai:m?url=http://localhost:8000/v1"]
"""


def test_a_config_names_files_beside_it_and_is_checked(tmp_path):
    (tmp_path / "c.toml").write_text(TOML)
    assert read_construct_config(tmp_path / "c.toml").references == tmp_path / "refs.jsonl"
    (tmp_path / "c.toml").write_text(TOML.replace("[0.1, 0.9]", "[0.9, 0.1]"))
    with pytest.raises(CarbError, match="smaller one first"):
        read_construct_config(tmp_path / "c.toml")
