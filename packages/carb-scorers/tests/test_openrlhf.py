"""Queries as OpenRLHF sends them: the policy's template is undone, or the prompt is refused."""

from __future__ import annotations

import unicodedata

import pytest

from carb_data import CarbError, Message
from carb_scorers.integrations.openrlhf import (
    TEMPLATES,
    Policy,
    PolicyFormat,
    PolicyTemplate,
    policy_of,
    response_in,
)
from carb_scorers.models.marks import bare_answer

LLAMA_3 = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: "
    "December 2023\nToday Date: 26 Jul 2024\n\n{system}<|eot_id|><|start_header_id|>user"
    "<|end_header_id|>\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
)
GPT_OSS = (
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
    "Knowledge cutoff: 2024-06\n<|end|><|start|>developer<|message|>{system}<|end|>"
    "<|start|>user<|message|>{user}<|end|><|start|>assistant"
)
COMMAND = (
    "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{system}<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{user}<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
)
RENDERED = {
    "ChatML": "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "Llama 3": LLAMA_3,
    "Llama 4": "<|begin_of_text|><|header_start|>system<|header_end|>\n\n{system}<|eot|>"
    "<|header_start|>user<|header_end|>\n\n{user}<|eot|><|header_start|>assistant<|header_end|>"
    "\n\n",
    "Gemma": "<bos><start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n",
    "Gemma 4": "<bos><|turn>system\n{system}<turn|>\n<|turn>user\n{user}<turn|>\n<|turn>model\n",
    "DeepSeek": "<｜begin▁of▁sentence｜>{system}<｜User｜>{user}<｜Assistant｜></think>",
    "Mistral": "<s>[SYSTEM_PROMPT]{system}[/SYSTEM_PROMPT][INST] {user} [/INST]",
    "Phi, Zephyr, GLM": "<|system|>\n{system}<|end|>\n<|user|>\n{user}<|end|>\n<|assistant|>\n",
    "Granite": "<|start_of_role|>system<|end_of_role|>{system}<|end_of_text|>\n"
    "<|start_of_role|>user<|end_of_role|>{user}<|end_of_text|>\n"
    "<|start_of_role|>assistant<|end_of_role|>",
    "Command": COMMAND,
    "Kimi": "<|im_system|>system<|im_middle|>{system}<|im_end|><|im_user|>user<|im_middle|>{user}"
    "<|im_end|><|im_assistant|>assistant<|im_middle|>",
    "gpt-oss": GPT_OSS,
    "EXAONE": "[|system|]{system}[|endofturn|]\n[|user|]{user}\n[|assistant|]",
    "Seed": "<seed:bos>system\n{system}<seed:eos><seed:bos>user\n{user}<seed:eos>"
    "<seed:bos>assistant\n",
    "MiniMax": "]~!b[]~b]system\n{system}[e~[\n]~b]user\n{user}[e~[\n]~b]ai\n<think>\n",
    "Phi 4": "<|im_start|>system<|im_sep|>{system}<|im_end|><|im_start|>user<|im_sep|>{user}"
    "<|im_end|><|im_start|>assistant<|im_sep|>",
    "Jamba": "<|startoftext|><|bom|><|system|> {system}<|eom|><|bom|><|user|> {user}<|eom|>"
    "<|bom|><|assistant|>",
    "Hunyuan": "<｜hy_begin▁of▁sentence｜>{system}<｜hy_place▁holder▁no▁3｜><｜hy_User｜>{user}"
    "<｜hy_Assistant｜>",
    "Apertus": "<s><|system_start|>{system}<|system_end|><|developer_start|>Deliberation: disabled"
    "\nTools: none<|developer_end|><|user_start|>{user}<|user_end|><|assistant_start|>",
    "Ling": "<role>SYSTEM</role>{system}<|role_end|><role>HUMAN</role>{user}<|role_end|>"
    "<role>ASSISTANT</role>",
    "Nemotron": "<SPECIAL_10>System\n\n<SPECIAL_11>User\n{user}\n<SPECIAL_11>Assistant\n",
    "TeleChat": "<_system>{system}<_end><_user>{user}<_bot>",
    "Baichuan": "{system}<reserved_106>{user}<reserved_107>",
    "MiniMax 1": "<beginning_of_sentence>system ai_setting=assistant\n{system}<end_of_sentence>\n"
    "<beginning_of_sentence>user name=user\n{user}<end_of_sentence>\n"
    "<beginning_of_sentence>ai name=assistant\n",
    "dots": "<|system|>{system}<|endofsystem|><|userprompt|>{user}<|endofuserprompt|><|response|>",
    "PLaMo": "<|plamo:bos|><|plamo:op|>system\n{system}<|plamo:op|>user\n{user}"
    "<|plamo:op|>assistant\n",
    "OpenChat": "<s>GPT4 Correct User: {user}<|end_of_turn|>GPT4 Correct Assistant:",
    "GigaChat": "<s>system<|role_sep|>{system}<|message_sep|>user<|role_sep|>{user}<|message_sep|>"
    "assistant<|role_sep|>",
    "Step": "<s><|BOT|>system\n{system}<|EOT|><|BOT|>user\n{user}<|EOT|><|BOT|>assistant\n",
    "BlueLM": "[|Human|]:{user}[|AI|]:",
    "MiniCPM": "<用户>{user}<AI>",
    "Skywork": "<s>[USER]{user}[SEP][BOT]",
    "Grok": "Human: {user}<|separator|>\n\nAssistant:",
    "Aquila": "{system}###Human: {user}###Assistant: ",
    "YandexGPT": "<s> Пользователь: {user}\n\n Ассистент:[SEP]",
    "Vicuna": "{system} USER: {user} ASSISTANT:",
    "roles as headings": "{system}\n\n### Instruction:\n{user}\n\n### Response:\n",
    "roles as words": "User: {user}\nAssistant: ",
    "roles as words at the beginning of a line": "Instruct: {user}\nOutput:",
}
OTHERS = {
    "GLM-4": "[gMASK]<sop><|user|>\n{user}<|assistant|>\n",
    "Zephyr": "<|user|>\n{user}</s>\n<|assistant|>\n",
    "Llama 2": "<s>[INST] <<SYS>>\n{system}\n<</SYS>>\n\n{user} [/INST]",
    "Mistral, first": "<s>[INST] {user} [/INST]",
    "Llama 3, dates alone": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>"
    "\n\n{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "GLM-4.5": "[gMASK]<sop><|user|>\n{user}/nothink<|assistant|>\n<think></think>\n",
    "Baichuan, newer": "<C_Q>{user}<C_A>",
    "Nemotron-4": "<extra_id_0>System\n\n<extra_id_1>User\n{user}\n<extra_id_1>Assistant\n",
    "Mistral Small": "<s>[SYSTEM_PROMPT]You are Mistral Small 9, a model created by Mistral AI.\n"
    "Today is Monday.[/SYSTEM_PROMPT][INST]{user}[/INST]",
    "SmolLM3": "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
    "Today Date: 1 May 2026\n\n## Custom Instructions\n\n"
    "You are a helpful AI assistant named SmolLM, trained by "
    "Hugging Face.\n\n<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n",
    "Alpaca": "Below is an instruction that describes a task. Write it.\n\n### Instruction:\n{user}"
    "\n\n### Response:",
    "Guanaco": "### Human: {user}### Assistant:",
    "KoAlpaca": "### 질문: {user}\n\n### 답변:",
    "RedPajama": "<human>: {user}\n<bot>:",
    "Sailor": "<|im_start|>question\n{user}<|im_end|>\n<|im_start|>answer\n",
    "Vicuna of LLaMA-Factory": "{system}USER: {user} ASSISTANT:",
    "Chinese words": "用户：{user}\n助手：",
    "R1-Zero": "A conversation between User and Assistant. The user asks a question, and the "
    "Assistant solves it. The assistant first thinks. User: {user}\nAssistant: <think>",
    "TinyZero": "A conversation between User and Assistant. The user asks, the Assistant solves it."
    "\nUser: {user}\nAssistant: <think>\n",
    "Ernie": "<|begin_of_sentence|>User: {user}\nAssistant: ",
    "Granite 4": "<|start_of_role|>system<|end_of_role|>You are a helpful assistant. Please ensure "
    "responses are professional, accurate, and safe.<|end_of_text|>\n"
    "<|start_of_role|>user<|end_of_role|>{user}<|end_of_text|>\n"
    "<|start_of_role|>assistant<|end_of_role|>",
    "QwQ": "<|im_start|>system\nYou are a helpful and harmless assistant. You are Qwen developed "
    "by Alibaba. You should think step-by-step.<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
    "<|im_start|>assistant\n",
    "Llama 2 with its own system": "<s>[INST] <<SYS>>\nYou are a helpful, respectful and honest "
    "assistant. Always answer as helpfully as possible, while being safe.\n<</SYS>>\n\n"
    "{user} [/INST]",
    "no template": "{user}",
    "a tokenizer's start alone": "<s>{user}",
}
QUESTION = "Was bringt ein Gast mit?\n\nEin Satz genügt."


def test_every_family_is_tried_here() -> None:
    assert [family.name for family in TEMPLATES.families] == [*RENDERED]


@pytest.mark.parametrize("form", [*RENDERED.values(), *OTHERS.values()], ids=[*RENDERED, *OTHERS])
def test_the_question_is_taken_out_of_a_rendered_prompt(form: str) -> None:
    """It went into the reward model's template as it was, whose control tokens were broken up."""
    default = form.format(system="You are a helpful assistant.", user=QUESTION)
    assert Policy().question(default) == QUESTION
    own = Policy().question(form.format(system="Sei knapp.", user=QUESTION))
    turns = (
        Message(role="system", content="Sei knapp."),
        Message(role="user", content=QUESTION),
    )
    assert own == (turns if "{system}" in form else QUESTION)


@pytest.mark.parametrize(
    "plain",
    [
        "Im Skript steht 'User:'. Warum?",
        "### Response:\nis a heading. What follows?",
        "Answer: what is it?",
        "Q: what stands for a question?",
        "Was steht hier?\nTitel: Brot\nPreis: 3 Euro",
        "Übersetze ins Deutsche: bread\nSchreibe nur ein Wort.",
        "Was fehlt in dieser Liste:",
        "- user story\n- assistant\nWas fehlt?",
        '{"name": "role"} ist welches Format?',
    ],
)
def test_words_of_a_question_are_no_template(plain: str) -> None:
    assert Policy().question(plain) == plain


SMOLLM3 = (
    "## Metadata\n\nKnowledge Cutoff Date: May 2025\nReasoning Mode: /no_think\n\n"
    "## Custom Instructions\n\n"
)
LLAMA_TOOLS = "Environment: ipython\nCutting Knowledge Date: May 2025\nToday Date: 1 May 2026\n\n"


@pytest.mark.parametrize(
    ("before", "rendered"),
    [(LLAMA_TOOLS, "ChatML"), (SMOLLM3, "ChatML"), ("# Instructions\n\n", "gpt-oss")],
)
def test_what_a_template_writes_before_a_system_turn_is_taken_off(
    before: str, rendered: str
) -> None:
    """It went to the reward model as the data's own system turn."""
    turns = Policy().question(RENDERED[rendered].format(system=f"{before}Sei knapp.", user="Was?"))
    assert [turn.content for turn in turns if isinstance(turn, Message)] == ["Sei knapp.", "Was?"]


def test_turns_stay_turns() -> None:
    prompt = (
        "<s>[INST] Was? [/INST] Brot.</s>[INST] Und noch? [/INST]",
        "[|user|]Was?\n[|assistant|]Brot.[|endofturn|]\n[|user|]Und noch?\n[|assistant|]",
        "USER: Was?\nASSISTANT: Brot.</s>\nUSER: Und noch?\nASSISTANT:",
        "USER: Was? ASSISTANT: Brot.</s>USER: Und noch? ASSISTANT:",
    )
    for rendered in prompt:
        asked = Policy().question(rendered)
        assert [(turn.role, turn.content) for turn in asked if isinstance(turn, Message)] == [
            ("user", "Was?"),
            ("assistant", "Brot."),
            ("user", "Und noch?"),
        ]


@pytest.mark.parametrize(
    "prompt",
    [
        "<|role_of_user|>Was?<|role_of_bot|>",
        "[|Kunde|]:Was?\n[|Berater|]:",
        "<|kunde|>Was?<|berater|>",
        "<C_Q>Was?<C_X>",
        "<|startoftext|>Was?<|extra_0|>",
        "<|im_start|>user\nWas?<|im_end|>\n",  # no answer begins
        "Zuerst. <|im_start|>user\nWas?<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\nWas?<|eot_id|><|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>tool\n3<|im_end|>\n<|im_start|>user\nWas?<|im_end|>\n<|im_start|>assistant\n",
    ],
)
def test_what_no_known_family_wrote_is_refused(prompt: str) -> None:
    with pytest.raises(CarbError, match=r"--policy-template MODEL"):
        Policy().question(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "User: Was?\n\nFalcon:",
        "Sei knapp.\n\nKunde: Was?\nBerater: ",
        "Kunde: Was? Berater:",
        "**Kunde:** Was?\n**Berater:**",
        "### Kunde\nWas?\n\n### Berater\n",
        "甲：什么？\n乙：",
        "ผู้ซื้อ: อะไร\nผู้ขาย:",
        "<kunde>: Was?\n<berater>:",
        "<user>Was?</user>\n<assistant>",
        "User >>> Was?\nBot >>>",
        "- user: Was?\n- assistant:",
        "User - Was?\nAssistant -",
        '[{"role": "user", "content": "Was?"}]',
        "[{'from': 'human', 'value': 'Was?'}]",
        '{"messages": [{"role": "user", "content": "Was?"}]}',
        "A conversation between User and Assistant. User: Was?\nAssistant: Let me see.\n<think>",
        "Kunde fragt: Was? Berater: <think>",
    ],
)
def test_turns_marked_by_unknown_words_are_refused(prompt: str) -> None:
    """Else the words around a question went into the reward model with it."""
    with pytest.raises(CarbError, match=r"--policy-template.*\{\}"):
        Policy().question(prompt)
    assert PolicyFormat("{}").question(prompt) == prompt


def test_words_of_unknown_roles_are_looked_for_in_linear_time() -> None:
    prompt = "Kunde: Was?\n" * 50_000
    assert Policy().question(prompt) == prompt


@pytest.mark.parametrize("filler", [" ", "\n"])
def test_a_run_of_spaces_is_read_in_linear_time(filler: str) -> None:
    """One prompt held the server for hours: a pattern began anew at each space."""
    prompt = f"Was?{filler * 200_000}?"
    assert Policy().question(prompt) == prompt


def render(messages: list[dict[str, str]]) -> str:
    """A template of no known family, which writes a date and takes no turn of the system."""
    if messages[0]["role"] == "system":
        raise ValueError("no system")
    made = "<|day|>12 Nov 2026\n"
    for message in messages:
        made += f"<|who-{message['role']}|>{message['content'].strip()}<|over|>"
    return f"{made}<|who-assistant|>"


def test_a_models_own_template_is_undone() -> None:
    policy = PolicyTemplate(render)
    alone = render([{"role": "user", "content": QUESTION}]).replace("12 Nov", "13 Nov")
    assert policy.question(alone) == QUESTION
    turns = [("user", "Was?"), ("assistant", "Brot."), ("user", "Und noch?")]
    asked = policy.question(render([{"role": r, "content": c} for r, c in turns]))
    assert [(t.role, t.content) for t in asked if isinstance(t, Message)] == turns
    for other in (QUESTION, alone + "x", alone.replace("<|over|>", "")):
        with pytest.raises(CarbError, match="--policy-template"):
            policy.question(other)


def test_a_format_is_undone() -> None:
    policy = policy_of("Frage: {}\nAntwort: ")
    assert policy.question("Frage: Was?\nAntwort: ") == "Was?"
    with pytest.raises(CarbError, match="--policy-template"):
        policy.question("Was?")


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
HOW = CHAT.format("Người Việt thường mang gì khi đến nhà?")
LONG = CHAT.format("Lang. " * 30)
R1 = "<｜begin▁of▁sentence｜><｜User｜>Was?<｜Assistant｜>"
GEMMA_4 = "<|turn>user\nW?<turn|>\n<|turn>model\n"
GLM = "[gMASK]<sop><|user|>\nW?<|assistant|>\n"
REPLY = "Grüß Gott."
THAI = "ชาวไทยใช้อะไรกินข้าว? "


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        (f"{HOW}{REPLY}<|im_end|>", HOW),
        (f"{HOW}{REPLY}<|im_end|>", nfd(HOW)),
        (f"{CHAT.format('손님은?')}{REPLY}", nfd(CHAT.format("손님은?"))),
        (f"{LONG[-40:]}{REPLY}<|im_end|>", LONG),
        (f"{LONG[-30:]}\n\n{REPLY}<|im_end|>", LONG),
        (f"<｜begin▁of▁sentence｜>{R1}{REPLY}<｜end▁of▁sentence｜>", R1),
        (f"<s>Was?{REPLY}</s></s>", "Was?"),
        (f"{CHAT.format('Que dit-on?')}{REPLY}", CHAT.format("Que dit-on ?")),
        (f"Was?{REPLY}<pad><pad>", "Was?"),
        (f"Was?{REPLY}<eos>{'<pad>' * 999}", "Was?"),
        (
            f"<bos><|turn>user\nW?<turn|>\n<|turn>model\n{REPLY}<turn|>",
            "<|turn>user\nW?<turn|>\n<|turn>model\n",
        ),
        (f"Was?{REPLY}<|END_OF_TURN_TOKEN|>", "<BOS_TOKEN>Was?"),
        (
            f"[gMASK]<sop>[gMASK]<sop><|user|>\nW?<|assistant|>\n{REPLY}<|user|>",
            "[gMASK]<sop><|user|>\nW?<|assistant|>\n",
        ),
        (f"Was?{REPLY}<|im_end|>[EOS]", "Was?"),
        (f"{REPLY}", ""),
        # OpenRLHF cuts a prompt at a token, which may be a part of a letter
        (f"\ufffd\ufffd{THAI[1:]}{REPLY}<|im_end|>", THAI),
    ],
)
def test_the_response_is_what_stands_behind_the_prompt(query: str, prompt: str) -> None:
    assert bare_answer(response_in(query, prompt)) == REPLY


def test_a_tokenizer_may_make_full_width_letters_plain() -> None:
    assert response_in(f"Was 1/2 (fi)?{REPLY}", "Was １/２ （ﬁ）？") == REPLY


@pytest.mark.parametrize(
    ("query", "prompt"),
    [("Was? vier", "Wo?"), ("s? vier", "Was?"), ("istant", LONG), ("", "Was?")],
)
def test_a_query_of_another_prompt_is_refused(query: str, prompt: str) -> None:
    with pytest.raises(CarbError, match="does not begin with its prompt"):
        response_in(query, prompt)
