"""Scores are what the model's own forward pass gives for one text at a time, computed here by other
means."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import torch
import transformers

import tiny_models
from carb_data import CarbError
from carb_data.models import Message
from carb_scorers import ScoreRequest, ScoreResult, open_scorer
from carb_scorers.models.chat_tokens import conversation
from carb_scorers.models.hf_loading import HFOptions, load
from carb_scorers.models.protocol import Prompt, message
from tiny_models import TEXTS, request
from tiny_server import row

DECODERS = [
    pytest.param(n, marks=() if n == "gemma3" else pytest.mark.real) for n in tiny_models.DECODERS
]
ENCODERS = [
    pytest.param(n, marks=() if n == "bert" else pytest.mark.real) for n in tiny_models.ENCODERS
]
ARCHITECTURES = [*DECODERS, *ENCODERS]


def scored(spec: str, *requests: ScoreRequest) -> list[ScoreResult]:
    return anyio.run(open_scorer(spec).score, requests)


def loaded(folder: Path, head: str) -> tuple[Any, Any]:
    model = getattr(transformers, f"AutoModelFor{head}").from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def rendered(tokenizer: Any, prompt: str, answer: str | None, cue: str = "") -> str:
    """By hand what ``tiny_models.CHAT`` says, or plain text behind the start token."""
    if not tokenizer.chat_template:
        return f"<s>{prompt}{cue}" + (answer or "")
    end = "" if answer is None else f"{answer}<|end|>\n"
    return f"<|user|>\n{prompt}<|end|>\n<|assistant|>\n{end}"


@pytest.mark.parametrize("options", ["", "?batching=budget"])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_classifier(base: Path, architecture: str, chat: bool, options: str) -> None:
    if chat and architecture in {"t5", "bart"}:
        pytest.skip(
            "they read their head at an end of text, which the chat template writes none of"
        )
    folder = tiny_models.folder(
        base, architecture, "SequenceClassification", chat=chat, pad="<pad>"
    )
    (result,) = scored(f"classifier:{folder}{options}", request())
    model, tokenizer = loaded(folder, "SequenceClassification")
    for key, text in enumerate(TEXTS):
        if chat:
            given = tokenizer(
                rendered(tokenizer, "What do people eat?", text),
                add_special_tokens=False,
                return_tensors="pt",
            )
        else:
            end = "" if tokenizer.sep_token else "\n"
            given = tokenizer(f"What do people eat?{end}", text, return_tensors="pt")
        assert ("token_type_ids" in given) == (architecture in tiny_models.TYPED)
        with torch.no_grad():
            expected = model(**given).logits[0, 0].item()
        assert result.scores[str(key)] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("options", ["", "&batching=budget"])
@pytest.mark.parametrize("architecture", DECODERS)
def test_a_head_is_read_where_the_models_own_pass_reads_it_though_turns_end_with_the_padding(
    base: Path, architecture: str, options: str
) -> None:
    """As after ``tokenizer.pad_token = tokenizer.eos_token``, which TRL does by default."""
    folder = tiny_models.folder(
        base, architecture, "SequenceClassification", chat=True, pad="<|end|>"
    )
    template = base / "no-newline.jinja"
    template.write_text(tiny_models.CHAT.replace("<|end|>\n{% endfor", "<|end|>{% endfor"))
    (result,) = scored(f"classifier:{folder}?chat_template={template}{options}", request())
    model, tokenizer = loaded(folder, "SequenceClassification")
    tokenizer.chat_template = template.read_text()
    for key, text in enumerate(TEXTS):
        turns = [
            {"role": "user", "content": "What do people eat?"},
            {"role": "assistant", "content": text},
        ]
        ids = tokenizer.apply_chat_template(turns, return_dict=True, return_tensors="pt")
        assert ids["input_ids"][0, -1] == model.config.pad_token_id
        with torch.no_grad():
            expected = model(**ids).logits[0, 0].item()
        assert result.scores[str(key)] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("pad", ["<pad>", "</s>"])
@pytest.mark.parametrize("written", [{"architectures": ["RewardModel"]}, {"mean": 0.4, "std": 2.0}])
def test_a_reward_model_of_openrlhf_is_read_at_the_end_of_text_behind_the_answer(
    base: Path, tmp_path: Path, pad: str, written: dict[str, Any]
) -> None:
    """OpenRLHF puts the end of text behind each conversation, and reads the last token whatever
    the padding is (openrlhf/datasets/reward_dataset.py, openrlhf/models/model.py)."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True, pad=pad)
    shutil.copytree(folder, made := tmp_path / "model")
    config = json.loads((made / "config.json").read_text()) | written
    del config["id2label"], config["label2id"]  # of a language model's configuration
    (made / "config.json").write_text(json.dumps(config))
    (result,) = scored(f"classifier:{made}?batching=budget", request())
    model, tokenizer = loaded(folder, "SequenceClassification")
    for key, text in enumerate(TEXTS):
        asked = rendered(tokenizer, "What do people eat?", text).rstrip("\n") + " </s>"
        ids = tokenizer(asked, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            last = model.model(ids).last_hidden_state[0, -1]
            expected = model.score(last).item()
        assert result.scores[str(key)] == pytest.approx(expected, abs=1e-5)


def test_sparse_attention_is_that_of_each_text_alone(base: Path) -> None:
    """BigBird turns to full attention at the first short text, and stays there."""
    folder = tiny_models.folder(
        base,
        "bigbird",
        "SequenceClassification",
        attention_type="block_sparse",
        block_size=8,
        num_random_blocks=1,
    )
    texts = ["Rice.", "Rice at dawn. " * 20]
    (result,) = scored(f"classifier:{folder}?batching=budget", request(*texts))
    for key, text in enumerate(texts):
        model, tokenizer = loaded(folder, "SequenceClassification")
        with torch.no_grad():
            given = tokenizer("What do people eat?", text, return_tensors="pt")
            expected = model(**given).logits.item()
        assert result.scores[str(key)] == pytest.approx(expected, abs=1e-5)


def test_a_model_whose_scores_are_chance_is_refused(base: Path) -> None:
    folder = tiny_models.folder(base, "reformer", "SequenceClassification")
    with pytest.raises(CarbError, match="another score at each pass"):
        open_scorer(f"classifier:{folder}")


def test_a_padding_token_that_is_none_changes_no_score(base: Path, tmp_path: Path) -> None:
    """Older configurations of Llama name -1."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True, pad="<pad>")
    shutil.copytree(folder, made := tmp_path / "model")
    config = made / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"pad_token_id": -1}))
    (result,) = scored(f"classifier:{made}", request())
    model, tokenizer = loaded(made, "SequenceClassification")
    for key, text in enumerate(TEXTS):
        asked = rendered(tokenizer, "What do people eat?", text)
        ids = tokenizer(asked, add_special_tokens=False)["input_ids"]
        assert result.scores[str(key)] == pytest.approx(float(row(model, ids)[0]), abs=1e-5)


@pytest.mark.parametrize(
    ("single", "pair"),
    [("<s> $A </s>", "<s> $A </s> <s> $B </s>"), ("$A </s>", "$A </s> $B </s>")],
    ids=["start and end", "end"],
)
def test_a_tokenizer_without_a_separator_gets_question_and_answer_as_one_text(
    base: Path, tmp_path: Path, single: str, pair: str
) -> None:
    """An end of text stood between them where the tokenizer ends each text with one."""
    from tokenizers.processors import TemplateProcessing

    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=False, pad="<pad>")
    shutil.copytree(folder, made := tmp_path / "model")
    model, tokenizer = loaded(made, "SequenceClassification")
    specials = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in ("<s>", "</s>")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=single, pair=pair, special_tokens=specials
    )
    tokenizer.save_pretrained(made)
    (result,) = scored(f"classifier:{made}", request())
    for key, text in enumerate(TEXTS):
        given = tokenizer(f"What do people eat?\n{text}", return_tensors="pt")
        assert given["input_ids"][0, -1] == dict(specials)["</s>"]
        with torch.no_grad():
            expected = model(**given).logits[0, 0].item()
        assert result.scores[str(key)] == pytest.approx(expected, abs=1e-5)


def test_a_head_that_a_short_cut_misses_on_real_texts_alone_is_left_to_its_own_pass(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older code looks for the first padding token, which a template may write after each turn."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification", chat=True, pad="<pad>")
    plain = transformers.LlamaForSequenceClassification.forward

    def forward(self: Any, input_ids: Any, **given: Any) -> Any:
        output = plain(self, input_ids, **given)
        marked = (input_ids == 9).any(-1)  # a token of the request, and not of the probe
        output.logits = output.logits + marked[:, None]
        return output

    monkeypatch.setattr(transformers.LlamaForSequenceClassification, "forward", forward)
    word = transformers.AutoTokenizer.from_pretrained(folder).decode([9])
    texts = [f"{text} {word}" for text in TEXTS]
    (result,) = scored(f"classifier:{folder}", request(*texts))
    model, tokenizer = loaded(folder, "SequenceClassification")
    for key, text in enumerate(texts):
        ids = tokenizer(rendered(tokenizer, "What do people eat?", text), add_special_tokens=False)[
            "input_ids"
        ]
        assert 9 in ids
        assert result.scores[str(key)] == pytest.approx(float(row(model, ids)[0]), abs=1e-5)


def test_a_text_beyond_the_models_embeddings_is_an_error_of_its_own(base: Path) -> None:
    """A tokenizer to which tokens were added, and a model that was not resized for them."""
    folder = tiny_models.folder(
        base, "llama", "SequenceClassification", pad="<pad>", vocab_size=450
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    beyond = next(
        word
        for word in (tokenizer.decode([token]) for token in range(450, 600))
        if max(tokenizer(word)["input_ids"]) >= 450
    )
    (result,) = scored(f"classifier:{folder}", request("a", beyond))
    assert result.error is not None or result.errors["1"].kind == "text"
    found = result.error or result.errors["1"]
    assert "450" in found.message
    assert "embedding" in found.message


@pytest.mark.parametrize("options", ["", "batching=budget&"])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("architecture", DECODERS)
def test_implicit(base: Path, architecture: str, chat: bool, options: str) -> None:
    folder = tiny_models.folder(base, architecture, "CausalLM", chat=chat)
    reference = tiny_models.folder(base, architecture, "CausalLM", chat=chat, seed=1)
    (plain,) = scored(f"implicit:{folder}?{options}ref=none", request())
    (bare,) = scored(f"implicit:{folder}?{options}end_of_turn=false", request())
    (mean,) = scored(f"implicit:{folder}?{options}reduce=mean", request())
    (ratio,) = scored(f"implicit:{folder}?{options}ref={reference}", request())

    def tokens(place: Path, answer: str) -> list[float]:
        model, tokenizer = loaded(place, "CausalLM")
        before = tokenizer(
            rendered(tokenizer, "What do people eat?", None, "\n"), add_special_tokens=False
        )["input_ids"]
        after = tokenizer(answer + ("<|end|>" if chat else ""), add_special_tokens=False)[
            "input_ids"
        ]
        logprobs = row(model, before + after).log_softmax(-1)
        return [logprobs[len(before) - 1 + i, token].item() for i, token in enumerate(after)]

    for key, text in enumerate(TEXTS):
        own, other = tokens(folder, text), tokens(reference, text)
        assert plain.scores[str(key)] == pytest.approx(sum(own), abs=1e-4)
        assert bare.scores[str(key)] == pytest.approx(sum(own[: -1 if chat else None]), abs=1e-4)
        assert mean.scores[str(key)] == pytest.approx(sum(own) / len(own), abs=1e-5)
        assert ratio.scores[str(key)] == pytest.approx(sum(own) - sum(other), abs=1e-4)


@pytest.mark.parametrize("batching", ["item", "budget"])
def test_a_long_text_has_positions_of_its_own(base: Path, tmp_path: Path, batching: str) -> None:
    """Phi 3 and 4 stretch the positions of a long text, those of its first tokens, too. So it
    shares neither a beginning nor a pass with a short one."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 100.0,
        "short_factor": [1.0] * 4,
        "long_factor": [3.0] * 4,
        "original_max_position_embeddings": 64,
    }
    folders = []
    for head in ("SequenceClassification", "CausalLM"):
        folder = tiny_models.folder(base, "llama", head, pad="<pad>")
        shutil.copytree(folder, made := tmp_path / head)
        config = json.loads((made / "config.json").read_text()) | {"rope_parameters": rope}
        (made / "config.json").write_text(json.dumps(config))
        folders.append(made)
    classifier, policy = folders
    texts = ("Rice.", "Rice at dawn. " * 20, "Carp at dawn. " * 20)
    asked = request("a", "b"), request(*texts, request_id="2")
    _, rewards = scored(f"classifier:{classifier}?batching={batching}", *asked)
    _, sums = scored(f"implicit:{policy}?ref=none&batching={batching}", *asked)
    for key, text in enumerate(texts):
        model, tokenizer = loaded(classifier, "SequenceClassification")
        with torch.no_grad():
            given = tokenizer(f"What do people eat?\n{text}", return_tensors="pt")
            expected = model(**given).logits[0, 0].item()
        assert rewards.scores[str(key)] == pytest.approx(expected, abs=1e-5)
        model, _ = loaded(policy, "CausalLM")
        before = tokenizer("<s>What do people eat?\n", add_special_tokens=False)["input_ids"]
        after = tokenizer(text, add_special_tokens=False)["input_ids"]
        logprobs = row(model, before + after).log_softmax(-1)
        own = [logprobs[len(before) - 1 + i, token].item() for i, token in enumerate(after)]
        assert sums.scores[str(key)] == pytest.approx(sum(own), abs=1e-4)


@pytest.mark.parametrize("batching", ["item", "budget"])
def test_padding_moves_no_border_of_a_chunk(tmp_path: Path, batching: str) -> None:
    """Llama 4 attends within chunks of tokens, in most of its layers."""
    config = transformers.Llama4TextConfig(
        vocab_size=640,
        hidden_size=32,
        intermediate_size=48,
        intermediate_size_mlp=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        attention_chunk_size=24,
        pad_token_id=2,
        bos_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights) * 0.1)
    model.save_pretrained(tmp_path)
    tokenizer = tiny_models.tokenizer(chat=False, pad="<pad>")
    tokenizer.save_pretrained(tmp_path)
    texts = ("Rice.", "Noodles at dawn, and nothing else", "Rice at dawn. " * 8)
    (result,) = scored(f"implicit:{tmp_path}?ref=none&batching={batching}", request(*texts))
    before = tokenizer("<s>What do people eat?\n", add_special_tokens=False)["input_ids"]
    for key, text in enumerate(texts):
        after = tokenizer(text, add_special_tokens=False)["input_ids"]
        logprobs = row(model, before + after).log_softmax(-1)
        own = [logprobs[len(before) - 1 + i, token].item() for i, token in enumerate(after)]
        assert result.scores[str(key)] == pytest.approx(sum(own), abs=1e-4)


TURNS = (
    ("system", "Be brief."),
    ("user", "Hi"),
    ("assistant", "Servus"),
    ("user", "What do people eat?"),
)
TALK = tuple(Message(role=role, content=content) for role, content in TURNS)


@pytest.mark.parametrize("kind", ["classifier", "implicit"])
def test_a_conversation_reaches_the_chat_template_as_turns(base: Path, kind: str) -> None:
    head = "SequenceClassification" if kind == "classifier" else "CausalLM"
    folder = tiny_models.folder(base, "llama", head, chat=True, pad="<pad>")
    asked = request().model_copy(update={"prompt": TALK})
    (result,) = scored(
        f"{kind}:{folder}", ScoreRequest.model_validate_json(asked.model_dump_json())
    )
    model, tokenizer = loaded(folder, head)
    before = (
        "".join(f"<|{role}|>\n{content}<|end|>\n" for role, content in TURNS) + "<|assistant|>\n"
    )
    for key, text in enumerate(TEXTS):
        end = "<|end|>\n" if kind == "classifier" else "<|end|>"
        start, ids = (
            tokenizer(t, add_special_tokens=False)["input_ids"]
            for t in (before, before + text + end)
        )
        logits = row(model, ids)
        if kind == "classifier":
            expected = logits[0].item()
        else:
            logprobs = logits.log_softmax(-1)
            expected = sum(logprobs[i - 1, ids[i]].item() for i in range(len(start), len(ids)))
        assert result.scores[str(key)] == pytest.approx(expected, abs=1e-4)


def test_a_head_of_several_objectives(base: Path) -> None:
    changes = {"num_labels": 3, "id2label": {0: "right", 1: "kind", 2: "short"}}
    folder = base / "objectives"
    if not folder.is_dir():
        made = tiny_models.folder(
            base, "llama", "SequenceClassification", pad="<pad>", num_labels=3
        )
        shutil.copytree(made, folder)
        config = transformers.AutoConfig.from_pretrained(folder)
        config.update(changes)
        config.save_pretrained(folder)
    with pytest.raises(CarbError, match=r"has 3 outputs \(right, kind, short\)"):
        open_scorer(f"classifier:{folder}")
    each = [
        scored(f"classifier:{folder}?objective={name}", request())[0].scores
        for name in ("right", "kind", "2")
    ]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for candidate in request().candidates:
        ids, _ = conversation(
            tokenizer, Prompt((message("user", str(request().prompt)),)), candidate.text
        )
        assert [scores[candidate.id] for scores in each] == pytest.approx(
            row(model, list(ids)).tolist(), abs=1e-5
        )
    with pytest.raises(CarbError, match="no output 'long'"):
        open_scorer(f"classifier:{folder}?objective=long")


def test_a_language_model_gives_its_head_the_last_states_in_one_block(base: Path) -> None:
    """torch multiplies a slice of a batch line by line on a CPU: 9 times slower in float32, 600
    times in bfloat16."""
    model = load(
        str(tiny_models.folder(base, "llama", "CausalLM")), HFOptions(), "AutoModelForCausalLM"
    ).model
    whole: list[bool] = []
    model.lm_head.register_forward_pre_hook(lambda _, given: whole.append(given[0].is_contiguous()))
    model(input_ids=torch.ones(3, 4, dtype=torch.long), logits_to_keep=1)
    assert whole == [True]
