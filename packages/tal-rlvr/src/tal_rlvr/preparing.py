"""What a run needs before its first step: checked pairs, and settings of the libraries."""

from __future__ import annotations

import tal_rlvr._training  # noqa: F401  # isort: skip  # before torch: names the missing extra
import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import PartialState
from transformers import AutoConfig

from carb_data import CarbError, MissingExtraError
from carb_scorers.models.protocol import LANGUAGE_MODELS, read_backend_options
from tal_rlvr.config import LoraSettings, TrainConfig
from tal_rlvr.contamination import drop_contaminated, report_contamination
from tal_rlvr.held_out import HeldOut, compare_held_out
from tal_rlvr.mix import Parts
from tal_rlvr.paired import Difference
from tal_rlvr.scorer import ThinkOptions, open_judge
from tal_rlvr.train import OnNote, write_json

__all__ = ["Named", "changes", "check_backend", "checked_parts", "context", "device_settings", "lora"]

Named = tuple[str, HeldOut]


def check_backend(config: TrainConfig) -> None:
    """Refuse what the evaluation cannot be opened with, before anything is trained. Nothing is loaded or asked.

    Raises:
        CarbError: an option of the backend is wrong, or its library is not installed.
    """
    options = config.backend_options(config.model)
    read_backend_options(ThinkOptions, LANGUAGE_MODELS, "[evaluation] options", options)
    if config.evaluation.backend == "vllm" and importlib.util.find_spec("vllm") is None:
        raise MissingExtraError("tal-rlvr", "gpu", "vllm")
    if config.evaluation.backend == "openai":
        open_judge("[evaluation] options", config.model, options, config.judge)  # reads the URL and the key


def checked_parts(config: TrainConfig, on_note: OnNote | None = None) -> tuple[Parts, int]:
    """The pairs, after the check against the evaluation sets; reports are written beside the checkpoints.

    Raises:
        CarbError: training pairs come from evaluation sets, and the configuration does not say to drop them.
    """
    parts, account = config.mix.mixed()
    if PartialState().is_main_process:
        write_json(config.out / "mix.json", account.model_dump_json(indent=1))
        for sentence in account.notes():
            (on_note or (lambda _: None))(sentence)
    report = report_contamination(parts, config.evaluation.sets)
    if PartialState().is_main_process:
        write_json(config.out / "contamination.json", report.model_dump_json(indent=1))
    if not report.found:
        return parts, 0
    if config.evaluation.on_contamination == "stop":
        first = next(found for found in report.found if found.test is not None)
        raise CarbError(
            f"{len(report.found)} training pairs repeat evaluation items (first: '{first.train}' and '{first.test}', "
            f"similarity {first.similarity:.2f}); see {config.out / 'contamination.json'}. Remove them, or set "
            f'evaluation.on_contamination = "drop".'
        )
    kept = drop_contaminated(parts.train, report)
    if not kept:
        raise CarbError("Every training pair repeats an evaluation item; nothing is left to train on.")
    return Parts(kept, parts.held_out), len(parts.train) - len(kept)


def changes(stages: Sequence[Named]) -> dict[str, Difference]:
    """Held-out accuracy after GRPO minus before it, by decoding."""
    before = {held.decoding: held for name, held in stages if name == "before"}
    after = {held.decoding: held for name, held in stages if name == "after"}
    return {decoding: compare_held_out(before[decoding], after[decoding]) for decoding in before}


def context(config: TrainConfig) -> int | None:
    """Longest prompt and output together that the model takes, in tokens; null where its configuration does not say."""
    found = AutoConfig.from_pretrained(config.model, revision=config.revision).get_text_config()
    longest = getattr(found, "max_position_embeddings", None)
    return int(longest) if longest else None


def device_settings() -> dict[str, Any]:
    """Settings of a trainer for the device that is there."""
    if torch.cuda.is_available():
        return {"bf16": True}
    return {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "dataloader_pin_memory": False}


def lora(settings: LoraSettings | None) -> Any:
    """The adapters' configuration for peft; null where all weights are trained."""
    if settings is None:
        return None
    from peft import LoraConfig

    modules = settings.target_modules
    return LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=modules if isinstance(modules, str) else list(modules),
        task_type="CAUSAL_LM",
    )
