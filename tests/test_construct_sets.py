"""Sets are made by the method, once, and again where something interrupted it."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

pytest.importorskip("anyio", reason="needs the extra 'construct'")
pytest.importorskip("httpx", reason="needs the extra 'construct'")
pytest.importorskip("numpy", reason="needs the extra 'construct'")

import anyio

from carb_data import CarbError, Dataset
from carb_data.construct import plan
from carb_data.construct.journal import AnswerJournal
from carb_data.journal import Journal
from construct_server import FOODS, chat, config_for, construct, serving, writer

pytestmark = pytest.mark.usefixtures("no_pauses")


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


def test_it_can_be_called_where_an_event_loop_runs(tmp_path):
    """As in a notebook."""

    async def cell():
        return construct(config, tmp_path / "within.jsonl")

    with serving(writer) as server:
        config = config_for(server, tmp_path)
        within = anyio.run(cell)
        without = construct(config, tmp_path / "without.jsonl")
    assert (tmp_path / "within.jsonl").read_bytes() == (tmp_path / "without.jsonl").read_bytes()
    assert within.model_dump(exclude={"out", "usage"}) == without.model_dump(exclude={"out", "usage"})
    assert within.cost == pytest.approx(without.cost)  # sums in the order in which answers came


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
        original = AnswerJournal.put
        stops = 0
        for _ in range(needed * 3):

            def put(self, key, answer, original=original):
                original(self, key, answer)
                raise Interruption

            AnswerJournal.put = put
            try:
                construct(config, tmp_path / "sets.jsonl", journal=tmp_path / "j.jsonl")
            except (Interruption, ExceptionGroup):
                stops += 1
                assert not (tmp_path / "sets.jsonl").exists()
            else:
                break
            finally:
                AnswerJournal.put = original
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


def test_two_runs_on_one_journal_do_not_both_pay(tmp_path):
    with serving(writer) as server, Journal(tmp_path / "sets.jsonl.journal.jsonl"):
        with pytest.raises(CarbError, match="Another process is writing into"):
            construct(config_for(server, tmp_path), tmp_path / "sets.jsonl")
        assert server.requests == []


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "j.jsonl").write_text('{"some": "data"}\n')
    with serving(writer) as server, pytest.raises(CarbError, match="not a journal entry"):
        construct(config_for(server, tmp_path), tmp_path / "sets.jsonl", journal=tmp_path / "j.jsonl")


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


def test_sets_are_written_in_a_target_language(tmp_path):
    """Pages on Thailand are asked about in Thai; in a language of another culture, the question must name it."""

    def speaking(number, path, body):
        prompt = body["messages"][0]["content"]
        if "Write one question" in prompt:
            language = prompt.partition("Write one question, in ")[2].partition(",")[0]
            return chat(
                {"Thai": "คนไทยกินอาหารเย็นอย่างไร", "English": "How do people eat?"}.get(language, "Wie isst man?")
            )
        return writer(number, path, body)

    with serving(speaking) as server:
        construct(config_for(server, tmp_path, language="own"), tmp_path / "own.jsonl")
        with pytest.raises(CarbError, match="does not name the culture"):
            construct(config_for(server, tmp_path, language="en"), tmp_path / "en.jsonl")
        construct(config_for(server, tmp_path), tmp_path / "reference.jsonl")
    own = {item.culture: item for item in Dataset.load(tmp_path / "own.jsonl")}
    assert own["thai"].language == own["thai"].chosen.language == "th"
    assert own["thai"].prompt == "คนไทยกินอาหารเย็นอย่างไร"
    assert own["german"].language == "de"
    assert {item.language for item in Dataset.load(tmp_path / "reference.jsonl")} == {"en"}


def test_mismatched_references_can_be_the_most_similar_ones(tmp_path):
    """Rice with chopsticks is nearer to rice with a spoon than bread with cheese is."""
    with serving(writer) as server:
        construct(config_for(server, tmp_path, mismatch="similarity"), tmp_path / "sets.jsonl")
    for item in Dataset.load(tmp_path / "sets.jsonl"):
        steps = json.loads(item.provenance.notes)["steps"]
        if item.culture == "thai":
            assert steps[2]["references"][0].startswith(("korean", "japanese"))
