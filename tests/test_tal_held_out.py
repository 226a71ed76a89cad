"""The held-out evaluation of ``carb train`` on each backend that is here: transformers, and a real
server."""

from __future__ import annotations

import sys
from functools import cached_property, partial

import pytest

from carb_data import CarbError
from carb_scorers.waiting import wait_for
from tal_rlvr import load_config, train
from tal_rlvr.held_out import PairOutcome, evaluate_held_out, summarise
from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.judgement import write_judgement
from tal_rlvr.mix import ordered
from tal_rlvr.preferences import Pair
from tal_rlvr.scorer import ThinkSettings, open_judge

pytest.importorskip("trl", reason="needs tal-rlvr[train]")

import torch

from tal_tiny import make_tiny
from tiny_server import TinyServer

# TRL sets the option by its old name.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"
)

PAIRS = [
    Pair(
        id=n,
        source_item=n,
        prompt=f"q {n}",
        chosen=f"rice {n}",
        rejected=f"tea {n}",
        culture=culture,
        language=code,
    )
    for n, culture, code in [("0", "thai", "en"), ("1", "general", "en"), ("2", "korean", "id")]
]
ROWS = ordered(PAIRS, shuffle=False)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


class Writes:
    """A judge that writes one text, and measures as the model behind it."""

    def __init__(self, judge, text):
        self.judge, self.text = judge, text
        self.continuation_logprobs, self.aclose = judge.continuation_logprobs, judge.aclose

    async def generate(self, prompts, writing):
        return [type(one)(self.text) for one in await self.judge.generate(prompts, writing)]


def evaluated(folder, settings, text=None, **options):
    async def ask():
        judge, _ = open_judge(
            "judge", str(folder), {key: str(value) for key, value in options.items()}, settings
        )
        if text is not None:
            judge = Writes(judge, text)
        try:
            return await evaluate_held_out(judge, ROWS, settings, decoding="greedy")
        finally:
            await judge.aclose()

    return wait_for(ask)


class Expected:
    """The same by transformers' own generate and one unbatched forward pass for each number, on the
    ids of training."""

    def __init__(self, folder, settings):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from tal_rlvr.trainer import training_rows
        from tal_rlvr.verdict_logprobs import verdict_logprobs
        from tal_rlvr.verdict_tokens import verdict_tokens

        self.settings = settings
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.tokens = verdict_tokens(self.tokenizer)
        self.measure = partial(verdict_logprobs, self.model, tokens=self.tokens, budget=1)
        self.rows = training_rows(ROWS, self.tokenizer, settings.prompts)

    @cached_property
    def prompts(self):
        from tal_rlvr.verdict_tokens import encode_prompt

        return [encode_prompt(self.tokenizer, row["prompt"]) for row in self.rows]

    def write(self, ids):
        greedy = {
            "do_sample": False,
            "max_new_tokens": self.settings.max_new_tokens,
            "pad_token_id": 0,
        }
        out = self.model.generate(
            torch.tensor([ids]), **greedy, output_logits=True, return_dict_in_generate=True
        )
        logprobs = torch.stack(out.logits)[:, 0].log_softmax(-1)
        return out.sequences[0, len(ids) :].tolist(), float(
            -(logprobs.exp() * logprobs).sum(-1).mean()
        )

    def logprobs(self, number, completion):
        """Log-probabilities of the label: after z as written, after z masked, without z."""
        from tal_rlvr.judge_rewards import VerdictRow, label_logprob
        from tal_rlvr.verdict_tokens import reasoning_ids

        prompt = tuple(self.prompts[number])
        suffixes = (
            reasoning_ids(self.tokenizer, completion, self.tokens),
            reasoning_ids(self.tokenizer, completion, self.tokens, mask=True),
            self.tokens.marker,
        )
        rows = [VerdictRow(prompt, tuple(suffix)) for suffix in suffixes]
        return [label_logprob(pair, ROWS[number].label) for pair in self.measure(rows)]


@pytest.mark.parametrize("chat", ["auto", "no"])
def test_transformers_gives_what_one_plain_pass_for_each_number_gives(tiny, chat):
    settings = ThinkSettings(prompts=PromptConfig(chat=chat, language="item"), max_new_tokens=16)
    held, expected = evaluated(tiny, settings), Expected(tiny, settings)
    for number, outcome in enumerate(held.outcomes):
        ids, entropy = expected.write(expected.prompts[number])
        assert outcome.text == expected.tokenizer.decode(ids, skip_special_tokens=True)
        assert outcome.entropy == pytest.approx(entropy, abs=1e-5)
        measured = (outcome.with_criteria, outcome.with_masked, outcome.without_criteria)
        canonical = expected.tokenizer(outcome.text, add_special_tokens=False)["input_ids"]
        assert measured == pytest.approx(expected.logprobs(number, canonical), abs=1e-4)


def test_criteria_are_measured_as_they_were_written_and_masked(tiny):
    settings = ThinkSettings(max_new_tokens=16)
    text = write_judgement(
        [("local fact", "people there know it", 3, "A")], "A fits daily life there.", "A"
    )
    held = evaluated(tiny, settings, text)
    expected = Expected(tiny, settings)
    ids = expected.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert held.format_rate.estimate == 1
    assert held.accuracy.estimate == 0.5
    for number, outcome in enumerate(held.outcomes):
        measured = (outcome.with_criteria, outcome.with_masked, outcome.without_criteria)
        assert measured == pytest.approx(expected.logprobs(number, ids), abs=1e-4)
        assert outcome.with_criteria != pytest.approx(outcome.with_masked, abs=1e-3)
        assert outcome.criteria_effect == outcome.with_masked - outcome.without_criteria


def test_nats_are_no_shares():
    """Five outputs of one entropy had an interval from 0.009 to 0.563: nats below 1 were taken for
    shares."""
    facts = {"label": "A", "verdict": "A", "well_formed": True, "text": "", "entropy": 0.2}
    facts |= {"with_criteria": -0.3, "with_masked": -0.3, "without_criteria": -0.7}
    outcomes = [
        PairOutcome(pair=name, source_item=name, **facts) for name in "abcde" for _ in range(2)
    ]
    held = summarise(outcomes, "greedy")
    for interval, value in ((held.entropy, 0.2), (held.criteria_effect, 0.4)):
        assert (interval.low, interval.high) == pytest.approx((value, value))
    assert held.accuracy.low < 0.9 < held.accuracy.high


class ByFolder(dict):
    """Models by the names of their folders, loaded when they are first asked for."""

    def __missing__(self, name):
        from transformers import AutoModelForCausalLM

        self[name] = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
        return self[name]


@pytest.fixture
def server(tiny):
    from transformers import AutoTokenizer

    started = TinyServer(ByFolder(), AutoTokenizer.from_pretrained(tiny))
    yield started
    started.close()


def test_a_server_that_echoes_gives_the_same_numbers_but_the_entropy(tiny, server):
    settings = ThinkSettings(prompts=PromptConfig(chat="no"), max_new_tokens=8)
    there = evaluated(tiny, settings, backend="openai", url=server.url, api="completions")
    here = evaluated(tiny, settings)
    assert [o.text for o in there.outcomes] == [o.text for o in here.outcomes]
    for name in ("with_criteria", "with_masked", "without_criteria"):
        assert [getattr(o, name) for o in there.outcomes] == pytest.approx(
            [getattr(o, name) for o in here.outcomes], abs=1e-4
        )
    assert there.criteria_effect.n == here.entropy.n == 3
    assert (there.entropy.estimate, there.entropy.n) == (None, 0)


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        ({"options": {"no_such": "1"}}, "no_such"),
        ({"backend": "openai", "options": {"url": "here"}}, "base URL"),
        ({"backend": "vllm"}, "tal-rlvr\\[gpu\\]"),
    ],
)
def test_a_backend_that_cannot_be_opened_is_refused_before_training(
    tiny, tmp_path, monkeypatch, evaluation, said
):
    monkeypatch.setitem(sys.modules, "vllm", None)
    values = {
        "model": str(tiny),
        "out": str(tmp_path / "out"),
        "mix": {"sources": [{"form": "carb", "path": "carb-seed"}]},
        "evaluation": evaluation,
    }
    with pytest.raises(CarbError, match=said):
        train(load_config("demo-cpu", values))
    assert not (tmp_path / "out").exists()
