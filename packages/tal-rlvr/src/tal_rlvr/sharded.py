"""What sharded training must not do to what comes after it: whole weights on disk, whole weights in evaluation."""

from __future__ import annotations

import tal_rlvr._training  # noqa: F401  # isort: skip  # before torch: names the missing extra
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

__all__ = ["save_whole", "whole_weights"]

ADAPTER = "adapter"


def whole_weights() -> None:
    """Let models that are loaded from now on have whole weights.

    Training arguments under ZeRO-3 tell transformers to partition every model that is loaded afterwards; an evaluation
    would get empty tensors. The next trainer's arguments set it again.
    """
    unset_hf_deepspeed_config()


def save_whole(trainer: Any, base: str, folder: Path, *, revision: str | None = None) -> None:
    """Save a trained model in one piece; every process must call it.

    The trainer gathers what is sharded. Adapters are saved beside the model and merged by the main process into the
    base, which it loads whole: what is in the trainer's memory may be a shard.

    Args:
        trainer: the trainer of TRL that holds the model.
        base: folder or hub id of the model that was trained.
        folder: the folder to write.
        revision: revision of the base model; null means the newest.
    """
    if not hasattr(trainer.accelerator.unwrap_model(trainer.model), "merge_and_unload"):
        trainer.save_model(str(folder))
        return
    trainer.save_model(str(folder / ADAPTER))
    trainer.accelerator.wait_for_everyone()
    whole_weights()
    if trainer.accelerator.is_main_process:
        from peft import PeftModel

        dtype = torch.float32 if not torch.cuda.is_available() else "auto"
        whole = AutoModelForCausalLM.from_pretrained(base, revision=revision, dtype=dtype)
        PeftModel.from_pretrained(whole, str(folder / ADAPTER)).merge_and_unload().save_pretrained(folder)
    trainer.accelerator.wait_for_everyone()
