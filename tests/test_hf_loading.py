"""Opening models: architectures with a score of their own, random heads refused, devices,
templates, no noise."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken

import tiny_models
from carb_data import CarbError
from carb_scorers import open_scorer
from carb_scorers.models.chat_tokens import answer_ids, conversation, prompt_ids
from carb_scorers.models.hf_loading import HFOptions, TemplateOptions, load, set_chat_template
from carb_scorers.models.marks import without_thinking, written_text
from carb_scorers.models.protocol import Prompt, message

REQUEST = tiny_models.request()


def scores(scorer: Any) -> dict[str, float]:
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert result.error is None, result.error
    return dict(result.scores)


def test_a_head_that_was_never_trained_is_refused(base: Path) -> None:
    """transformers would fill it with random numbers and go on."""
    folder = tiny_models.folder(base, "llama", "CausalLM")
    with pytest.raises(CarbError, match=r"no weights for score\.weight.*random numbers"):
        open_scorer(f"classifier:{folder}")


@pytest.mark.parametrize(
    "name",
    [
        "score.bias",
        "v_head.summary.weight",
        "value_head.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.3.mlp.up_proj.weight",
        "model.layers.0.self_attn.q_norm.weight",
        "score.0.weight",
        "gating.weight",
        "reward_mean",
    ],
)
def test_weights_that_the_class_would_drop_are_refused(
    base: Path, tmp_path: Path, name: str
) -> None:
    """transformers would score without them and go on."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification")
    shutil.copytree(folder, made := tmp_path / "model")
    weights = load_file(made / "model.safetensors")
    save_file(weights | {name: torch.ones(4)}, made / "model.safetensors", {"format": "pt"})
    with pytest.raises(CarbError, match=re.escape(name)):
        open_scorer(f"classifier:{made}")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("llama", "lm_head.weight"),
        ("gpt_neo", "transformer.h.0.attn.attention.bias"),
    ],
)
def test_what_is_no_part_of_a_score_may_stand_beside_it(
    base: Path, tmp_path: Path, kind: str, name: str
) -> None:
    """A language model's head, and the masks that old checkpoints keep."""
    folder = tiny_models.folder(base, kind, "SequenceClassification")
    shutil.copytree(folder, made := tmp_path / "model")
    weights = load_file(made / "model.safetensors")
    save_file(weights | {name: torch.ones(4)}, made / "model.safetensors", {"format": "pt"})
    alike = [scores(open_scorer(f"classifier:{path}")) for path in (folder, made)]
    assert alike[0] == alike[1]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"architectures": ["LlamaForTokenClassification"]}, "LlamaForTokenClassification"),
        ({"architectures": ["LlamaForReward"]}, "LlamaForReward"),
        ({"auto_map": {"AutoModel": "modeling_own.TwoWayLlama"}}, "modeling_own.TwoWayLlama"),
    ],
)
def test_a_model_that_another_class_trained_is_refused(
    tmp_path: Path, base: Path, changes: dict[str, Any], name: str
) -> None:
    """Its weights have the names of a classifier's, so transformers would load them into one."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification")
    shutil.copytree(folder, made := tmp_path / "model")
    config = json.loads((made / "config.json").read_text()) | changes
    (made / "config.json").write_text(json.dumps(config))
    for options in ("", "?trust_remote_code=true"):
        with pytest.raises(CarbError, match=name):
            open_scorer(f"classifier:{made}{options}")


@pytest.mark.parametrize("changes", [{"id2label": {"0": "a", "1": "b"}}, {"vocab_size": 700}])
def test_weights_of_another_size_are_named(
    tmp_path: Path, base: Path, changes: dict[str, Any]
) -> None:
    """The message pointed to a report that nobody saw."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification")
    shutil.copytree(folder, made := tmp_path / "model")
    config = json.loads((made / "config.json").read_text()) | changes
    (made / "config.json").write_text(json.dumps(config))
    with pytest.raises(CarbError, match=r"no weights for (score|model.embed_tokens)\.weight.*size"):
        open_scorer(f"classifier:{made}")


def test_a_padding_token_beyond_the_vocabulary_is_no_traceback(base: Path, tmp_path: Path) -> None:
    folder = tiny_models.folder(base, "llama", "CausalLM")
    shutil.copytree(folder, made := tmp_path / "model")
    config = made / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"pad_token_id": 99_999}))
    with pytest.raises(CarbError, match=r"Cannot load the model.*Padding_idx"):
        open_scorer(f"implicit:{made}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("judge:{}?device=abacus", "Unknown device 'abacus'"),
        ("judge:{}?chat_template=nowhere.jinja", "cannot read that file"),
        ("judge:{}?dtype=int8", "dtype: .*got 'int8'"),
        ("judge:{}?batch_tokens=0", "batch_tokens: .*got '0'"),
        ("judge:{}?form=nowhere.toml", "no form"),
    ],
)
def test_wrong_use(base: Path, spec: str, message: str) -> None:
    with pytest.raises(CarbError, match=message):
        open_scorer(spec.format(tiny_models.folder(base, "llama", "CausalLM")))


@pytest.mark.parametrize("kind", ["classifier", "judge", "implicit"])
def test_a_typing_error_is_told_before_torch_is_imported(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Importing it takes seconds."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CarbError, match="no model folder"):
        open_scorer(f"{kind}:nowhere")


@pytest.mark.parametrize("kind", ["classifier", "judge", "implicit"])
def test_a_misspelt_folder_is_refused_at_once_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The hub's client asks again for half a minute, file by file."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    (tmp_path / "models" / "gemma").mkdir(parents=True)
    (tmp_path / "models" / "gemma" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CarbError, match=r"modles/gemma.*Did you mean 'models/gemma'"):
        open_scorer(f"{kind}:modles/gemma")


def test_broken_folders_are_explained(tmp_path: Path, base: Path) -> None:
    with pytest.raises(CarbError, match="Cannot load the model"):
        open_scorer(f"judge:{tmp_path}")
    made = tiny_models.folder(base, "llama", "CausalLM")
    folder = tmp_path / "model"
    shutil.copytree(made, folder)
    (folder / "model.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(CarbError, match="Cannot load the model"):
        open_scorer(f"judge:{folder}")
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CarbError, match="safetensors"):
        open_scorer(f"judge:{folder}")


def test_the_revision_is_a_hash_of_what_decides_scores(tmp_path: Path, base: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_models.folder(base, "llama", "CausalLM"), folder)
    (folder / "empty.txt").touch()
    counted = [
        "config.json",
        "empty.txt",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    plain = b"".join(
        n.encode() + hashlib.sha256((folder / n).read_bytes()).digest() for n in counted
    )
    before = open_scorer(f"judge:{folder}").spec.revision
    assert before == f"sha256:{hashlib.sha256(plain).hexdigest()}"
    (folder / "README.md").write_text("nothing that counts")
    assert open_scorer(f"judge:{folder}").spec.revision == before
    (folder / "chat_template.jinja").write_text(tiny_models.CHAT)
    assert open_scorer(f"judge:{folder}").spec.revision != before


def test_opening_and_scoring_print_nothing(base: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [
        tiny_models.folder(base, "llama", head) for head in ("CausalLM", "SequenceClassification")
    ]
    capfd.readouterr()
    scores(open_scorer(f"judge:{folders[0]}?least_mass=0"))
    scores(open_scorer(f"implicit:{folders[0]}?ref=none"))
    scores(open_scorer(f"classifier:{folders[1]}"))
    writer = open_scorer(f"judge:{folders[0]}?read=generate&max_tokens=3&temperature=1")
    anyio.run(writer.score, [REQUEST])
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.is_progress_bar_enabled()


def test_a_chat_template_can_be_given_or_left_out(base: Path, tmp_path: Path) -> None:
    plain = tiny_models.folder(base, "llama", "SequenceClassification")
    chat = tiny_models.folder(base, "llama", "SequenceClassification", chat=True)
    template = tmp_path / "chat.jinja"
    template.write_text(tiny_models.CHAT)
    with_template = scores(open_scorer(f"classifier:{chat}"))
    without = scores(open_scorer(f"classifier:{plain}"))
    assert with_template != without
    assert scores(open_scorer(f"classifier:{plain}?chat_template={template}")) == pytest.approx(
        with_template
    )
    assert scores(open_scorer(f"classifier:{chat}?chat_template=none")) == pytest.approx(without)
    template.write_text("{{ raise_exception('no system, no user, no nobody') }}")
    (result,) = anyio.run(
        open_scorer(f"classifier:{plain}?chat_template={template}").score, [REQUEST]
    )
    assert result.error is not None
    assert (result.error.kind, "no nobody" in result.error.message) == ("text", True)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (tiny_models.CHAT, False),
        (tiny_models.CHAT.replace("{% if add_generation_prompt %}", "{% if true %}"), True),
        ("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", False),
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", False),
        ("{{ raise_exception('never') }}", False),
    ],
    ids=["as asked", "always", "only ends of turns", "only lines", "fails"],
)
def test_a_turn_that_a_template_always_begins_behind_an_answer_is_said(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, template: str, said: bool
) -> None:
    """A classifier was read behind it without a word."""
    folder = tiny_models.folder(base, "llama", "SequenceClassification")
    path = tmp_path / "chat.jinja"
    path.write_text(template)
    open_scorer(f"classifier:{folder}?chat_template={path}")
    assert len([r for r in caplog.records if "chat_template=" in r.getMessage()]) == said


def test_dtypes(base: Path) -> None:
    folder = tiny_models.folder(base, "gemma3", "SequenceClassification")
    exact = scores(open_scorer(f"classifier:{folder}?dtype=float64"))
    assert scores(open_scorer(f"classifier:{folder}")) == pytest.approx(exact, abs=1e-5)
    assert scores(open_scorer(f"classifier:{folder}?dtype=bfloat16")) == pytest.approx(
        exact, abs=0.05
    )
    assert scores(open_scorer(f"classifier:{folder}?attention=eager")) == pytest.approx(
        exact, abs=1e-5
    )


def test_what_is_kept_names_a_dtype_that_another_device_would_not_take(
    base: Path, tmp_path: Path
) -> None:
    """A run begun in bfloat16 on a GPU went on in float32 on a CPU, under one key."""
    path = tiny_models.folder(base, "llama", "SequenceClassification")
    loader = transformers.AutoModelForSequenceClassification
    loader.from_pretrained(path, dtype=torch.bfloat16).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(path).save_pretrained(tmp_path)
    on_cpu = load(str(tmp_path), HFOptions(), loader)
    elsewhere = load(str(tmp_path), HFOptions(device="meta"), loader)
    assert on_cpu.model.dtype != elsewhere.model.dtype
    assert on_cpu.revision != elsewhere.revision


THINKING = tiny_models.CHAT.replace(
    "<|assistant|>\n{% endif %}",
    "<|assistant|>\n{% if enable_thinking is defined and not enable_thinking "
    "%}<think></think>{% endif %}{% endif %}",
)
"""As Qwen 3's: a model that may not think is shown an empty thought."""
OFF = '{"enable_thinking": false}'
PROMPT = Prompt((message("user", "What do people eat?"),))


def made(template: str | None = THINKING, **options: str) -> Any:
    found = tiny_models.tokenizer(chat=True)
    found.chat_template = template
    set_chat_template(found, TemplateOptions(**options))
    return found


def test_a_templates_variables_reach_it_wherever_it_is_used() -> None:
    plain, changed = made(), made(chat_template_kwargs=OFF)
    thought = plain("<think></think>", add_special_tokens=False)["input_ids"]
    assert prompt_ids(changed, PROMPT) == [*prompt_ids(plain, PROMPT), *thought]
    assert prompt_ids(made(chat_template_kwargs='{"enable_thinking": true}'), PROMPT) == prompt_ids(
        plain, PROMPT
    )
    assert conversation(changed, PROMPT, "Rice.") == conversation(
        plain, PROMPT, "Rice."
    )  # no turn is open
    assert answer_ids(changed, "Rice.", end_of_turn=True) == answer_ids(
        plain, "Rice.", end_of_turn=True
    )


@pytest.mark.parametrize("kind", ["judge", "implicit"])
@pytest.mark.parametrize("mark", ["<think>", "[THINK]", "◁think▷", "<seed:think>"])
def test_nothing_is_read_behind_a_thought_that_the_template_opens(
    base: Path, tmp_path: Path, kind: str, mark: str
) -> None:
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)
    template = tmp_path / "open.jinja"
    template.write_text(
        tiny_models.CHAT.replace("<|assistant|>\n{%", f"<|assistant|>\n{mark}\n{{%")
    )
    scorer = open_scorer(f"{kind}:{folder}?chat_template={template}")
    with pytest.raises(CarbError, match=rf"{re.escape(mark)}.*chat_template_kwargs"):
        anyio.run(scorer.score, [tiny_models.request()])


DROPPING = tiny_models.CHAT.replace(
    "<|{{ m.role }}|>", "{% if m.role != 'system' %}<|{{ m.role }}|>"
).replace("{% endfor %}", "{% endif %}{% endfor %}")
TALK = Prompt((message("system", "Be brief."), *PROMPT.messages))


def test_a_turn_of_the_system_that_the_template_leaves_out_is_an_error() -> None:
    """Two different turns of the system would give one score."""
    assert len(prompt_ids(made(), TALK)) > len(prompt_ids(made(), PROMPT))
    dropping = made(DROPPING)
    assert prompt_ids(dropping, PROMPT) == prompt_ids(made(tiny_models.CHAT), PROMPT)
    with pytest.raises(ValueError, match=r"leaves out the turn of the system.*chat_template="):
        prompt_ids(dropping, TALK)
    with pytest.raises(ValueError, match="leaves out the turn of the system"):
        conversation(dropping, TALK, "Rice.")


@pytest.mark.parametrize(
    ("template", "role"),
    [
        (
            "{% for m in messages if m.role == 'user' %}{{ m.content }}<|end|>{% endfor %}",
            "assistant",
        ),
        ("{{ messages[-2].content }}<|end|>{{ messages[-1].content }}<|end|>", "user"),
        ("{% for m in messages %}{{ m.content[:4] }}<|end|>{% endfor %}", "user"),
        ("{% for m in messages %}{{ m.content[2:] }}<|end|>{% endfor %}", "user"),
        ("{% for m in messages %}{{ m.content | upper }}<|end|>{% endfor %}", "user"),
        (
            "{% for m in messages %}{{ m.content | replace('Like', '') }}<|end|>{% endfor %}",
            "assistant",
        ),
    ],
    ids=["answers", "earlier turns", "ends", "beginnings", "case", "words"],
)
def test_a_turn_that_the_template_leaves_out_or_changes_is_an_error(
    template: str, role: str
) -> None:
    """All answers would tie, or scores were those of other texts."""
    talk = (message("user", "How?"), message("assistant", "So."), message("user", "In Bern?"))
    with pytest.raises(ValueError, match=f"leaves out the turn of the {role}"):
        conversation(made(template), Prompt(talk), "Like so.")


@pytest.mark.parametrize(
    "code", ["{{ 1 / 0 }}", "{{ range(10 ** 9) | list }}", "{% include 'x' %}"]
)
def test_a_chat_template_that_fails_is_an_error_of_its_row(code: str) -> None:
    with pytest.raises(ValueError, match="the chat template fails with"):
        conversation(made(code), PROMPT, "Like so.")


def test_a_template_may_leave_out_spaces_and_a_thought() -> None:
    trimmed = made(
        "{% for m in messages %}{{ m.content.split('</think>')[-1] | trim }}{% endfor %}"
    )
    assert conversation(trimmed, PROMPT, " <think>Hm.</think>Like so. ") == conversation(
        trimmed, PROMPT, "Like so."
    )


@pytest.mark.parametrize("kind", ["implicit", "judge"])
@pytest.mark.parametrize(
    "template",
    [
        tiny_models.CHAT.partition("{% if")[0],
        tiny_models.CHAT + "</s>",
        tiny_models.CHAT.replace("in messages", "in messages | reverse"),
    ],
    ids=["no header", "an end", "another order"],
)
def test_nothing_is_read_where_the_template_puts_no_answer(
    base: Path, tmp_path: Path, kind: str, template: str
) -> None:
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)
    (tmp_path / "given.jinja").write_text(template)
    scorer = open_scorer(f"{kind}:{folder}?chat_template={tmp_path / 'given.jinja'}")
    with pytest.raises(CarbError, match="chat_template="):
        anyio.run(scorer.score, [tiny_models.request()])


@pytest.mark.parametrize("special", [True, False])
def test_a_thought_between_special_tokens_keeps_its_marks(special: bool) -> None:
    """Without them a verdict that was only thought of would pass for the answer."""
    tokenizer = tiny_models.tokenizer(chat=True)
    tokenizer.add_tokens(
        [AddedToken(mark, special=special) for mark in ("[THINK]", "[/THINK]")],
        special_tokens=special,
    )
    ids = tokenizer("[THINK]So [[A]]?[/THINK]I say [[B]]<|end|></s>")["input_ids"]
    text = written_text(tokenizer, ids)
    assert text == "[THINK]So [[A]]?[/THINK]I say [[B]]"
    assert without_thinking(text) == "I say [[B]]"


def test_channels_are_kept_apart() -> None:
    tokenizer = tiny_models.tokenizer(chat=True)
    marks = ["<|start|>", "<|channel|>", "<|message|>", "<|return|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    ids = tokenizer(
        "<|channel|>analysis<|message|>[[A]]?<|end|><|start|>assistant"
        "<|channel|>final<|message|>[[B]]<|return|>"
    )["input_ids"]
    assert without_thinking(written_text(tokenizer, ids)) == "[[B]]"


DATED = (
    "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "Today: {{ date_string }}\n" + tiny_models.CHAT
)


def test_a_template_that_writes_the_date_makes_another_model_of_each_day(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokenizer = tiny_models.tokenizer(chat=True)
    tokenizer.chat_template = DATED
    today = set_chat_template(tokenizer, TemplateOptions())
    assert re.fullmatch(r"\+clock:\d\d \w+ 20\d\d", today)
    (record,) = caplog.records
    assert f'chat_template_kwargs={{"date_string": "{today.removeprefix("+clock:")}"}}' in (
        record.getMessage()
    )
    assert today.removeprefix("+clock:") in tokenizer.decode(prompt_ids(tokenizer, PROMPT))
    pinned = tiny_models.tokenizer(chat=True)
    pinned.chat_template = DATED
    given = '{"date_string": "1 May 2020"}'
    assert set_chat_template(pinned, TemplateOptions(chat_template_kwargs=given)) == ""
    assert "1 May 2020" in pinned.decode(prompt_ids(pinned, PROMPT))


@pytest.mark.parametrize(
    ("template", "variables"),
    [
        ("{% set today = strftime_now('%Y') %}{{ today }}", []),
        ("{{ strftime_now('%Y') }}", []),
        ("{{ day | default(strftime_now('%Y')) }}", []),
        (
            (
                "{% if not a is defined %}{% set a = strftime_now('%Y') %}{% endif %}"
                "{% if not b is defined %}{% set b = strftime_now('%B') %}{% endif %}"
                "{{ a }} {{ b }}"
            ),
            ["a", "b"],
        ),
        ("{{ strftime_now('%d %B %Y') | upper }}", []),
        ("{{ 'Good night' if strftime_now('%H') | int > 21 else 'Hello' }} {{ x }}{# or #}", []),
        ("{% if messages | length > 2 %}{{ strftime_now('%Y') }}{% endif %}", []),
        ("{% if not add_generation_prompt %}{{ strftime_now('%Y') }}{% endif %}", []),
        ("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}", []),
    ],
    ids=[
        "set in any case",
        "no variable",
        "a default",
        "two variables",
        "changed",
        "compared",
        "in longer conversations",
        "in whole conversations",
        "where there is a clock",
    ],
)
def test_the_option_that_is_named_pins_the_date(
    template: str, variables: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """An option was named although the template overwrote its variable."""
    tokenizer = tiny_models.tokenizer(chat=True)
    tokenizer.chat_template = template + tiny_models.CHAT
    assert set_chat_template(tokenizer, TemplateOptions()).startswith("+clock:")
    (record,) = caplog.records
    option = record.getMessage().partition("chat_template_kwargs=")[2].rstrip(".")
    assert bool(option) == bool(variables)
    assert option or "chat_template=" in record.getMessage()
    if option:
        assert sorted(json.loads(option)) == variables
        pinned = tiny_models.tokenizer(chat=True)
        pinned.chat_template = template + tiny_models.CHAT
        assert set_chat_template(pinned, TemplateOptions(chat_template_kwargs=option)) == ""


@pytest.mark.parametrize(
    "asked",
    [
        "{% set form = '%Y' %}{{ strftime_now(form) }}",
        "{{ strftime_now(format='%Y') }}",
        "{% set now = strftime_now %}{{ now('%Y') }}",
        "{% set n = namespace(now=strftime_now) %}{{ n.now('%Y') }}",
        "{{ [strftime_now][0]('%Y') }}",
        "{{ {'now': 1, 'f': strftime_now}['f']('%Y') }}",
    ],
)
def test_a_clock_that_is_asked_in_another_way_is_refused(asked: str) -> None:
    tokenizer = tiny_models.tokenizer(chat=True)
    tokenizer.chat_template = asked + tiny_models.CHAT
    with pytest.raises(CarbError, match=r"asks the clock.*chat_template="):
        set_chat_template(tokenizer, TemplateOptions())


def test_a_clock_whose_answer_is_not_used_makes_no_other_model() -> None:
    tokenizer = tiny_models.tokenizer(chat=True)
    tokenizer.chat_template = "{% set now = strftime_now('%H:%M:%S') %}" + tiny_models.CHAT
    assert set_chat_template(tokenizer, TemplateOptions()) == ""


def test_the_clock_of_a_template_stands_still_within_a_run(base: Path, tmp_path: Path) -> None:
    """Scores of one run had different prompts after midnight."""
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)
    template = tmp_path / "clock.jinja"
    template.write_text("{{ strftime_now('%H:%M:%S.%f') }}\n" + tiny_models.CHAT)
    spec = f"implicit:{folder}?chat_template={template}"
    first, second = open_scorer(spec), open_scorer(spec)
    assert first.spec.revision != second.spec.revision
    assert scores(first) == scores(first)
    assert scores(first) != scores(second)
