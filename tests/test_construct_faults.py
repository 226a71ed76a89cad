"""The pipeline against a server that refuses, breaks off and lies on demand."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter

import pytest

pytest.importorskip("anyio", reason="needs the extra 'construct'")
pytest.importorskip("httpx", reason="needs the extra 'construct'")
pytest.importorskip("numpy", reason="needs the extra 'construct'")

from carb_data import CarbError, Dataset
from carb_data.construct import EmbedderSpec
from construct_server import FOODS, chat, config_for, construct, serving, writer

pytestmark = pytest.mark.usefixtures("no_pauses")


@pytest.mark.parametrize(
    "fault",
    [
        (429, {"retry-after": "0"}, b"slow down"),
        (429, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, b"slow down"),
        (503, {}, b"overloaded"),
        None,
    ],
    ids=["429", "429-date", "503", "broken-off"],
)
def test_passing_faults_are_asked_again(tmp_path, fault):
    def failing(number, path, body):
        return fault if number % 2 else writer(number, path, body)

    with serving(failing) as server:
        report = construct(config_for(server, tmp_path, parallel=1), tmp_path / "sets.jsonl")
    assert report.built == 10
    assert report.discarded == {}


def test_a_page_in_the_place_of_an_answer_is_written_again(tmp_path):
    def failing(number, path, body):
        return (200, {}, b"<html>not json</html>") if number % 2 else writer(number, path, body)

    with serving(failing) as server:
        report = construct(config_for(server, tmp_path, parallel=1), tmp_path / "sets.jsonl")
    assert report.built == 10
    assert report.discarded.keys() == {"the model failed"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {}, b"prompt too long"), "400: prompt too long"),
        ((200, {}, b'{"choices": []}'), "does not have the form of /chat/completions"),
        ((200, {}, b'{"choices": [{"message": {"content": null}}]}'), "empty"),
        ((200, {}, b"[1, 2]"), "not a JSON object"),
        ((200, {}, b'"text"'), "not a JSON object"),
        ((500, {}, b"always"), "500: always"),
    ],
)
def test_lasting_faults_give_one_set_up_and_not_the_others(tmp_path, answer, reason):
    def failing(number, path, body):
        spoiled = "(1)" in body["messages"][0]["content"] and body["model"] == "strong"
        return answer if spoiled else writer(number, path, body)

    with serving(failing) as server:
        report = construct(config_for(server, tmp_path, attempts=2), tmp_path / "sets.jsonl")
    assert report.built == 5
    assert [failure.reference for failure in report.failed] == [f"{culture}-1" for culture in FOODS]
    for failure in report.failed:
        assert failure.step == "chosen"
        assert len(failure.reasons) == 2
        assert all(re.search(reason, text) for text in failure.reasons)
    assert report.built + len(report.failed) == report.references


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "does not accept the key .*no such key.*key_env"), (404, "answers 404.*no such key.*url=")],
)
def test_a_server_that_refuses_everything_ends_the_run_at_once(tmp_path, status, said):
    with serving(lambda *_: (status, {}, b"no such key")) as server:
        config = config_for(server, tmp_path, parallel=4)
        with pytest.raises(CarbError, match=said):
            construct(config, tmp_path / "sets.jsonl")
        assert len(server.requests) <= 4
    assert not (tmp_path / "sets.jsonl").exists()


def test_a_server_that_is_not_there_is_a_plain_error(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    config = config_for(f"http://127.0.0.1:{free}/v1", tmp_path, limit=1, attempts=1)
    with pytest.raises(CarbError, match=r"Not one set could be made.*connection attempts failed"):
        construct(config, tmp_path / "sets.jsonl")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("", "empty"),
        ("ok", "length"),
        ("zzzz qqqq xxxx jjjj vvvv kkkk wwww zzzz qqqq xxxx jjjj vvvv", "off topic"),
        ("{chosen}", "nearly the same as another answer"),
    ],
)
def test_bad_wrong_answers_are_written_again(tmp_path, bad, reason):
    first = Counter()

    def spoiled(number, path, body):
        good = writer(number, path, body)
        if body["model"].startswith("weak"):
            key = re.search(r"Question:.*", body["messages"][0]["content"])[0], body["seed"]
            first[key] += 1
            if len(first) == 1:
                return chat(bad.replace("{chosen}", FOODS["thai"] + " (0) as told by strong"))
        return good

    with serving(spoiled) as server:
        config = config_for(server, tmp_path, limit=1, parallel=1)
        report = construct(config, tmp_path / "sets.jsonl")
    assert report.built == 1
    assert report.discarded == {reason: 1}
    (item,) = Dataset.load(tmp_path / "sets.jsonl")
    steps = json.loads(item.provenance.notes)["steps"]
    assert sum(len(step["discarded"]) for step in steps) == 1


def test_a_window_that_nothing_passes_gives_the_reasons(tmp_path):
    with serving(writer) as server:
        config = config_for(server, tmp_path, window=(0.999, 1.0), attempts=2, limit=1)
        with pytest.raises(CarbError, match=r"Not one set could be made.*off topic"):
            construct(config, tmp_path / "sets.jsonl")
    assert not (tmp_path / "sets.jsonl").exists()


def test_answers_that_were_cut_off_are_not_used_unless_asked_for(tmp_path):
    def cutting(number, path, body):
        text = json.loads(writer(number, path, body)[2])["choices"][0]["message"]["content"]
        return chat(text, finish="length")

    with serving(cutting) as server:
        with pytest.raises(CarbError, match="cut off at max_tokens"):
            construct(config_for(server, tmp_path, limit=1), tmp_path / "a.jsonl")
        report = construct(config_for(server, tmp_path, limit=1, accept_cut_off=True), tmp_path / "b.jsonl")
    assert report.built == 1


def test_answers_in_another_language_are_not_used(tmp_path):
    pytest.importorskip("lingua", reason="needs the extra 'checks'")

    def german(number, path, body):
        if body["model"] == "strong" and body["seed"] % 2:
            return chat("Abends isst man hier meistens Brot mit Käse und Wurst.")
        return writer(number, path, body)

    with serving(german) as server:
        report = construct(config_for(server, tmp_path, check_language=True, attempts=8), tmp_path / "sets.jsonl")
    assert report.discarded.keys() == {"not in the prompt's language"}
    assert report.built == 10


def test_embeddings_come_from_a_server_where_one_is_named(tmp_path):
    def both(number, path, body):
        if path.endswith("/embeddings"):
            rows = [{"index": n, "embedding": [1.0, len(text) / 100]} for n, text in enumerate(body["input"])]
            content = {"data": rows[::-1], "usage": {"prompt_tokens": 7}}
            return 200, {}, json.dumps(content).encode()
        return writer(number, path, body)

    with serving(both) as server:
        embedder = EmbedderSpec(kind="openai", model="vectors", url=server.url, price_in=1e6)
        config = config_for(server, tmp_path, embedder=embedder, limit=2, window=(0.5, 1.0))
        report = construct(config, tmp_path / "sets.jsonl")
        asked = sum(path.endswith("/embeddings") for path, _, _ in server.requests)
        construct(config, tmp_path / "sets.jsonl")
        assert sum(path.endswith("/embeddings") for path, _, _ in server.requests) == asked
    assert report.usage["vectors"].calls == asked
    assert report.usage["vectors"].cost == pytest.approx(7 * asked)


def test_a_reasoning_model_is_asked_as_it_wants(tmp_path):
    """It refuses ``max_tokens`` and a temperature."""

    def reasoning(number, path, body):
        if {"max_tokens", "temperature"} & set(body) or body["max_completion_tokens"] != 4096:
            return 400, {}, b"Unsupported parameter: use max_completion_tokens"
        return writer(number, path, body)

    body = '{"max_tokens": null, "max_completion_tokens": 4096, "temperature": null}'
    with serving(reasoning) as server:
        config = config_for(server, tmp_path)
        asked = {name: getattr(config, name).model_copy(update={"body": body}) for name in ("question", "chosen")}
        rejected = tuple(model.model_copy(update={"body": body}) for model in config.rejected)
        report = construct(config.model_copy(update={**asked, "rejected": rejected}), tmp_path / "sets.jsonl")
    assert report.built == 10


def test_an_answer_without_content_is_counted_and_paid_once(tmp_path):
    """A model that spent its tokens on reasoning; 119 of 286 calls of one run."""

    def silent(number, path, body):
        if body["model"] == "strong" and "(1)" in body["messages"][0]["content"]:
            content = {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}
            return 200, {}, json.dumps(content | {"usage": {"prompt_tokens": 9, "completion_tokens": 4}}).encode()
        return writer(number, path, body)

    with serving(silent) as server:
        config = config_for(server, tmp_path, attempts=2)
        report = construct(config, tmp_path / "sets.jsonl")
        asked = [body for _, body, _ in server.requests if body["model"] == "strong"]
        construct(config, tmp_path / "sets.jsonl")
        assert len([body for _, body, _ in server.requests if body["model"] == "strong"]) == len(asked)
    without = sum("(1)" in body["messages"][0]["content"] for body in asked)
    assert without == 10  # two attempts at each of five
    used = report.usage["strong"]
    assert (used.calls, used.completion_tokens) == (len(asked), 4 * without + 10 * (len(asked) - without))
