"""Loading a policy for training, and its prompts as training rows."""

from __future__ import annotations

from typing import Any

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.bon.policies import policy_prompts
from carb_scorers.models.protocol import plain_text
from carb_scorers.models.source import model_source
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.evaluating import TaskPart


def load_policy(config: PolicyConfig, *, one_line: bool) -> tuple[Any, Any, Any]:
    """Model, tokenizer, and the tokens that end the model's texts.

    Where answers are one line, the end of the line also ends a base model's answer in training; ``save`` takes that
    back, since other tasks have longer answers.

    Raises:
        CarbError: the model cannot be loaded.
    """
    model_source(config.policy)
    torch = require("torch", package="tal-rlvr", extra="train")
    transformers = require("transformers", package="tal-rlvr", extra="train")
    transformers.set_seed(config.seed)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(config.policy, padding_side="left")
        model = transformers.AutoModelForCausalLM.from_pretrained(config.policy, dtype=torch.float32)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CarbError(f"Cannot load the policy '{config.policy}': {reason}") from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    ends = model.generation_config.eos_token_id
    if one_line and not tokenizer.chat_template:
        known = ends if isinstance(ends, list) else [] if ends is None else [ends]
        breaks = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("\n", "\n\n")]
        single = [ids[0] for ids in breaks if len(ids) == 1]
        model.generation_config.eos_token_id = list(dict.fromkeys([*known, tokenizer.eos_token_id, *single]))
    return model, tokenizer, ends


def rows_of(config: PolicyConfig, part: TaskPart, tokenizer: Any) -> list[dict[str, Any]]:
    """Training rows: ``prompt`` (a chat where the tokenizer has a template, else a text) and ``prompt_id``."""
    # TRL lets the tokenizer put its start token before a plain text; some do not, though their model wants it.
    starts = tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id
    start = "" if starts else tokenizer.bos_token or ""
    rows = []
    for one in policy_prompts(part, shots=config.shots):
        text = start + plain_text(one.prompt)
        prompt = [dict(message) for message in one.prompt.messages] if tokenizer.chat_template else text
        rows.append({"prompt": prompt, "prompt_id": one.id})
    return rows


def lora(config: PolicyConfig) -> Any:
    """The adapter's configuration, or null where all weights are trained."""
    if not config.lora_rank:
        return None
    peft = require("peft", package="tal-rlvr", extra="train")
    return peft.LoraConfig(
        r=config.lora_rank, lora_alpha=2 * config.lora_rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def save(trainer: Any, tokenizer: Any, folder: Any, ends: Any) -> None:
    """The trained policy as a folder that loads on its own; an adapter is merged into its model.

    Args:
        trainer: the trainer of TRL that holds the model.
        tokenizer: The tokenizer that belongs to the policy.
        folder: the folder to write.
        ends: the tokens that end the model's texts, as ``load_policy`` found them.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    model.generation_config.eos_token_id = ends
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
