"""The pipeline against a server that answers, refuses, breaks off and lies on demand."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("anyio", reason="needs the extra 'construct'")
pytest.importorskip("httpx", reason="needs the extra 'construct'")
pytest.importorskip("numpy", reason="needs the extra 'construct'")

from carb_data import CarbError, DataError, Dataset, Domain
from carb_data.construct import Config, EmbedderSpec, ModelSpec, construct, load_config, plan
from carb_data.construct.journal import Journal
from carb_data.construct.openai import _Server
from carb_data.construct.pipeline import clean, mismatched
from carb_data.construct.prompts import Prompts, fill
from carb_data.sources.models import Reference

FOODS = {
    "thai": "People eat rice with a spoon and a fork at most meals in the evening.",
    "german": "People eat bread with cheese and cold cuts at most meals in the evening.",
    "japanese": "People eat rice with chopsticks from a small bowl in the evening.",
    "korean": "People eat rice with a metal spoon and soup beside it in the evening.",
    "spanish": "People eat late, often after ten, with shared plates in the evening.",
}


def references(count_each: int = 2) -> list[Reference]:
    return [
        Reference(
            id=f"{culture}-{n}", culture=culture, domain=Domain.COMMONSENSE, topic="food", language="en",
            text=f"{text} ({n})",
            provenance={"source": "book", "source_id": f"p{culture}{n}", "license": "CC-BY-4.0", "method": "authored"},
        )
        for culture, text in FOODS.items() for n in range(count_each)
    ]  # fmt: skip


Behaviour = Callable[[int, str, dict], "tuple[int, dict, bytes] | None"]


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = behaviour
        self.lock = threading.Lock()
        self.requests: list[tuple[str, dict, dict]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        """Broken connections are what the tests make."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.requests.append((self.path, body, dict(self.headers)))
            number = len(self.server.requests)
        answer = self.server.behaviour(number, self.path, body)
        if answer is None:  # break off
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def serving(behaviour: Behaviour):
    server = FakeServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(_Server, "FIRST_PAUSE", 0.0)


def chat(text: str, finish: str = "stop", **usage) -> tuple[int, dict, bytes]:
    usage = usage or {"prompt_tokens": 100, "completion_tokens": 10}
    content = {"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": usage}
    return 200, {"content-type": "application/json"}, json.dumps(content).encode()


def writer(number: int, path: str, body: dict) -> tuple[int, dict, bytes]:
    """A model that does as it is told."""
    prompt = body["messages"][0]["content"]
    if "Write one question" in prompt:
        return chat("How do people eat in the evening?")
    text = re.search(r"Reference material:\n\n(.*?)\n\nQuestion:", prompt, re.DOTALL)[1]
    return chat(f"“{text[:-4]} as told by {body['model']}.”")


def config_for(server, tmp_path, **changes) -> Config:
    path = tmp_path / "references.jsonl"
    if not path.exists():
        path.write_text("\n".join(r.model_dump_json() for r in references()), encoding="utf-8")
    url = server if isinstance(server, str) else server.url
    model = {"url": url, "retries": 2, "price_in": 1.0, "price_out": 10.0}
    base = {
        "references": path,
        "question": ModelSpec(model="asker", **model),
        "chosen": ModelSpec(model="strong", **model),
        "rejected": (ModelSpec(model="weak-1", **model), ModelSpec(model="weak-2", **model)),
        "window": (0.2, 0.98),
        "check_language": False,
    }
    return Config(**{**base, **changes})


def test_sets_are_made_by_the_method(tmp_path):
    seen = []
    with serving(writer) as server:
        report = construct(
            config_for(server, tmp_path), tmp_path / "sets.jsonl", progress=lambda *numbers: seen.append(numbers)
        )
    dataset = Dataset.load(tmp_path / "sets.jsonl")
    assert report.built == len(dataset) == 10
    assert report.failed == ()
    assert report.counts == {f"{culture} / commonsense": 2 for culture in sorted(FOODS)}
    assert seen[-1] == (10, 10, 0)
    for item in dataset:
        assert item.prompt == "How do people eat in the evening?"
        assert item.chosen.culture == item.culture
        assert item.chosen.generator == "strong"
        assert len({response.culture for response in item.responses}) == 4  # three different other cultures
        assert {response.generator for response in item.rejected} <= {"weak-1", "weak-2"}
        assert item.chosen.text.startswith(FOODS[item.culture][:20])
        for response in item.rejected:
            assert response.text.startswith(FOODS[response.culture][:20])
        assert item.provenance.method == "generated"
        assert item.provenance.license == "CC-BY-4.0"
        assert item.provenance.source_id.startswith("p")
        steps = json.loads(item.provenance.notes)["steps"]
        assert [step["step"] for step in steps] == ["question", "chosen", "rejected-1", "rejected-2", "rejected-3"]
        for step in steps:
            assert set(step) >= {"model", "seed", "references", "prompt", "discarded"}
        assert all(0.2 <= step["similarity"] <= 0.98 for step in steps[2:])
    calls = 10 * 5
    assert sum(usage.calls for name, usage in report.usage.items() if name != "character n-grams") == calls
    assert report.cost == pytest.approx(calls * (100 * 1.0 + 10 * 10.0) / 1e6)


def test_a_second_run_pays_for_nothing_and_writes_the_same(tmp_path):
    with serving(writer) as server:
        config = config_for(server, tmp_path)
        construct(config, tmp_path / "sets.jsonl")
        first = (tmp_path / "sets.jsonl").read_bytes()
        asked = len(server.requests)
        report = construct(config, tmp_path / "sets.jsonl")
        assert len(server.requests) == asked
    assert (tmp_path / "sets.jsonl").read_bytes() == first
    assert report.cost == 0
    assert sum(usage.from_journal for usage in report.usage.values()) >= asked


def test_the_same_seed_gives_the_same_sets_and_another_one_others(tmp_path):
    with serving(writer) as server:
        for name, seed, parallel in (("a", 0, 1), ("b", 0, 8), ("c", 1, 8)):
            construct(config_for(server, tmp_path, seed=seed, parallel=parallel), tmp_path / f"{name}.jsonl")
    a, b, c = (Dataset.load(tmp_path / f"{name}.jsonl") for name in "abc")
    assert a == b
    assert a != c


def test_after_an_interruption_only_what_is_missing_is_asked(tmp_path):
    """Interrupted after every single answer in turn, each answer is still asked for once."""
    paid = Counter()

    class Interruption(Exception):
        pass

    def counting(number, path, body):
        paid[json.dumps(body, sort_keys=True)] += 1
        return writer(number, path, body)

    with serving(counting) as server:
        config = config_for(server, tmp_path, limit=2, parallel=1)
        whole = tmp_path / "whole.jsonl"
        construct(config, whole)
        needed = len(paid)
        paid.clear()
        original = Journal.put
        stops = 0
        for _ in range(needed * 3):

            def put(self, key, answer, original=original):
                original(self, key, answer)
                raise Interruption

            Journal.put = put
            try:
                construct(config, tmp_path / "sets.jsonl", journal=tmp_path / "j.jsonl")
            except (Interruption, ExceptionGroup):
                stops += 1
                assert not (tmp_path / "sets.jsonl").exists()
            else:
                break
            finally:
                Journal.put = original
        assert stops >= needed
    assert set(paid.values()) == {1}
    assert len(paid) == needed
    assert (tmp_path / "sets.jsonl").read_bytes() == whole.read_bytes()


def test_a_journal_cut_off_in_its_last_line_is_taken_up(tmp_path):
    with serving(writer) as server:
        config = config_for(server, tmp_path, limit=1)
        construct(config, tmp_path / "sets.jsonl")
        asked = len(server.requests)
        journal = tmp_path / "sets.jsonl.journal.jsonl"
        before = (tmp_path / "sets.jsonl").read_bytes()
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
        construct(config, tmp_path / "sets.jsonl")
        assert len(server.requests) <= asked + 1
    assert (tmp_path / "sets.jsonl").read_bytes() == before


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "j.jsonl").write_text('{"some": "data"}\n')
    with serving(writer) as server, pytest.raises(CarbError, match="not a journal entry"):
        construct(config_for(server, tmp_path), tmp_path / "sets.jsonl", journal=tmp_path / "j.jsonl")


@pytest.mark.parametrize(
    "fault",
    [
        (429, {"retry-after": "0"}, b"slow down"),
        (429, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, b"slow down"),
        (503, {}, b"overloaded"),
        (200, {}, b"<html>not json</html>"),
        None,
    ],
    ids=["429", "429-date", "503", "no-json", "broken-off"],
)
def test_passing_faults_are_asked_again(tmp_path, fault):
    def failing(number, path, body):
        return fault if number % 2 else writer(number, path, body)

    with serving(failing) as server:
        report = construct(config_for(server, tmp_path, parallel=1), tmp_path / "sets.jsonl")
    assert report.built == 10
    assert report.discarded == {}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {}, b"prompt too long"), "status 400: prompt too long"),
        ((200, {}, b'{"choices": []}'), "an answer without a text"),
        ((200, {}, b'{"choices": [{"message": {"content": null}}]}'), "an answer without a text"),
        ((200, {}, b"[1, 2]"), "an answer without a text"),
        ((200, {}, b'"text"'), "an answer without a text"),
        ((500, {}, b"always"), r"status 500: always \(after 3 requests\)"),
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


@pytest.mark.parametrize("status", [401, 404])
def test_a_server_that_refuses_everything_ends_the_run_at_once(tmp_path, status):
    with serving(lambda *_: (status, {}, b"no such key")) as server:
        config = config_for(server, tmp_path, parallel=4)
        with pytest.raises(CarbError, match=f"answers {status}.*no such key.*OPENAI_API_KEY"):
            construct(config, tmp_path / "sets.jsonl")
        assert len(server.requests) <= 4
    assert not (tmp_path / "sets.jsonl").exists()


def test_a_server_that_is_not_there_is_a_plain_error(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    config = config_for(f"http://127.0.0.1:{free}/v1", tmp_path, limit=1, attempts=1)
    with pytest.raises(CarbError, match=r"Not one set could be made.*ConnectError"):
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


def test_the_key_is_sent_and_never_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with serving(writer) as server:
        config = config_for(server, tmp_path, limit=1)
        report = construct(config, tmp_path / "sets.jsonl")
        assert {headers["Authorization"] for _, _, headers in server.requests} == {"Bearer sk-very-secret"}
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "sk-very-secret" not in written + repr(config) + repr(report) + str(plan(config))


def test_no_more_requests_at_a_time_than_allowed(tmp_path):
    now, most, lock = 0, 0, threading.Lock()
    gate = threading.Barrier(2)

    def watching(number, path, body):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if number <= 2:
            gate.wait(10)  # two requests are in the server at once, or this fails
        with lock:
            now -= 1
        return writer(number, path, body)

    with serving(watching) as server:
        config = config_for(server, tmp_path)
        limited = config.question.model_copy(update={"concurrency": 2})
        construct(config.model_copy(update={"question": limited, "parallel": 6}), tmp_path / "sets.jsonl")
    assert most >= 2


def test_the_plan_asks_nothing_and_bounds_the_run(tmp_path):
    with serving(writer) as server:
        config = config_for(server, tmp_path)
        planned = plan(config)
        assert server.requests == []
        report = construct(config, tmp_path / "sets.jsonl")
        after = plan(config, journal=tmp_path / "sets.jsonl.journal.jsonl")
    assert planned.sets == report.counts
    assert sum(step.least_calls for step in planned.steps) == len(server.requests)
    assert report.cost <= planned.most_cost
    assert {step.step for step in planned.steps} == {"question", "chosen", "rejected"}
    assert "10 sets from 10 references" in str(planned)
    assert planned.journal_entries == 0
    assert after.journal_entries > 50


def test_given_questions_are_used_and_lone_references_reported(tmp_path):
    known = references(1)[0].model_copy(update={"question": "What is eaten at night?"})
    lone = known.model_copy(update={"id": "lone", "domain": Domain.VALUES})
    path = tmp_path / "references.jsonl"
    path.write_text("\n".join(r.model_dump_json() for r in [known, *references(1)[1:], lone]), encoding="utf-8")
    with serving(writer) as server:
        report = construct(config_for(server, tmp_path), tmp_path / "sets.jsonl")
    assert report.unused == {"no reference of another culture in its domain": 1}
    assert report.built == 5
    assert Dataset.load(tmp_path / "sets.jsonl")["constructed/thai-0"].prompt == "What is eaten at night?"


def test_references_of_varieties_are_not_foreign_to_each_other():
    def at(culture: str, topic: str) -> Reference:
        return references(1)[0].model_copy(update={"id": culture + topic, "culture": culture, "topic": topic})

    own = at("spanish-mx", "food")
    others = [at("spanish-es", "food"), at("spanish", "x"), at("thai", "x"), at("thai", "food"), at("german", "food")]
    order = mismatched(own, others, seed=3)
    assert {r.culture for r in order} == {"thai", "german"}
    assert [r.topic for r in order] == ["food", "food", "x"]  # the same topic first, cultures in turn


def test_bad_references_are_all_reported(tmp_path):
    good = references(1)[0].model_dump_json()
    (tmp_path / "references.jsonl").write_text(f'{good}\n{{"id": "x"}}\nnonsense\n{good}\n')
    with pytest.raises(DataError) as caught:
        plan(config_for("http://localhost:1/v1", tmp_path))
    assert {problem.line for problem in caught.value.problems} == {2, 3, 4}


TOML = """
name = "mine"
references = "refs.jsonl"
window = [0.1, 0.9]
[question]
model = "m"
url = "http://localhost:8000/v1"
[chosen]
kind = "transformers"
model = "folder"
chat = false
[[rejected]]
model = "m"
url = "http://localhost:8000/v1"
[prompts]
question = "Ask in $language about: $reference"
"""


def test_a_config_is_read_from_toml_and_json(tmp_path):
    (tmp_path / "c.toml").write_text(TOML)
    config = load_config(tmp_path / "c.toml")
    assert config.references == tmp_path / "refs.jsonl"
    assert config.chosen.kind == "transformers"
    content = config.model_copy(update={"references": "refs.jsonl"}).model_dump(mode="json")
    (tmp_path / "c.json").write_text(json.dumps(content))
    assert load_config(tmp_path / "c.json") == config


def test_the_config_of_the_readme_is_one(tmp_path):
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (tmp_path / "c.toml").write_text(re.search(r"```toml\n(.*?)```", readme, re.DOTALL)[1], encoding="utf-8")
    config = load_config(tmp_path / "c.toml")
    assert [model.kind for model in config.rejected] == ["openai", "transformers"]
    assert config.rejected[1].stop == ("\n",)
    assert config.embedder.kind == "openai"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('url = "http', 'uri = "http', "question.uri: Extra inputs"),
        ("[0.1, 0.9]", "[0.9, 0.1]", "smaller one first"),
        ("$language about", "$tongue about", r"unknown fields \['tongue'\]"),
        ("$language about", "$ about", "a '\\$' must be followed"),
        ("window =", "window", "not valid TOML"),
    ],
)
def test_a_bad_config_is_a_plain_error(tmp_path, old, new, reason):
    (tmp_path / "c.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(CarbError, match=reason):
        load_config(tmp_path / "c.toml")


def test_a_missing_config_and_a_bad_output_are_plain_errors(tmp_path):
    with pytest.raises(CarbError, match="Cannot read the config"):
        load_config(tmp_path / "absent.toml")
    with serving(writer) as server, pytest.raises(CarbError, match="unknown file type"):
        construct(config_for(server, tmp_path), tmp_path / "sets.csv")


def test_what_stands_in_a_reference_is_never_read_as_a_field():
    text = fill(
        Prompts().answer, culture="c", language="l", question="$reference $$ {x}", reference="$question", text=""
    )
    assert "$reference $$ {x}" in text
    assert "\n$question\n" in text


@pytest.mark.parametrize(
    ("raw", "text"),
    [('  "a b" ', "a b"), ("“a”", "a"), ("「あ」", "あ"), ('"a" and "b"', '"a" and "b"'), ('"', '"'), (" ", "")],
)
def test_quotation_marks_around_an_answer_go(raw, text):
    assert clean(raw) == text
