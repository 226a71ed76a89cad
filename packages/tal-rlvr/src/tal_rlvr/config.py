"""The configuration of a training run: one TOML file, presets."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.validation import parse_file, validate
from tal_rlvr.mix import TrainingMix
from tal_rlvr.prompting import PromptConfig
from tal_rlvr.reward_functions import RewardConfig
from tal_rlvr.scorer import ThinkSettings
from tal_rlvr.warmup import WarmupConfig


class LoraSettings(Frozen):
    """Low-rank adapters (Hu et al. 2021) in place of full tuning."""

    r: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: str | tuple[str, ...] = "all-linear"


class EvaluationConfig(Frozen):
    """The evaluation before and after training, on pairs held out of every source."""

    backend: Literal["hf", "vllm", "openai"] = "hf"
    """Where the saved judges are asked. A server of ``openai`` must serve each under the name of its folder."""
    options: dict[str, str] = Field(default={})
    """Options of the backend as in ``think:MODEL``, such as ``url``. All values are strings."""
    decoding: tuple[Literal["greedy", "sample"], ...] = ("greedy",)
    before: Literal["warmup", "both"] = "warmup"
    """``both`` evaluates the model as it came, too."""
    sets: tuple[str, ...] = ()
    """Evaluation sets (as ``carb_data.load`` takes them) that no training pair may come from."""
    on_contamination: Literal["stop", "drop"] = "stop"
    """``drop`` leaves the pairs out that were found, and says so in the report."""


class TrainConfig(Frozen):
    """Everything that a run needs; ``load_config`` reads it from TOML."""

    model: str
    """Folder or hub id."""
    revision: str | None = None
    out: Path
    """Folder for the checkpoints, the trained model and the reports."""
    seed: int = 0
    mix: TrainingMix
    prompts: PromptConfig = PromptConfig()
    warmup: WarmupConfig = WarmupConfig()
    rewards: RewardConfig = RewardConfig()
    lora: LoraSettings | None = None
    evaluation: EvaluationConfig = EvaluationConfig()
    direct: bool = False
    """Whether outputs are verdicts without reasoning; R is then R_corr alone."""
    max_new_tokens: int = Field(default=512, ge=8)
    """Longest judgement, in tokens."""
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    """Pairs with a longer prompt are left out, and counted. Default: the model's context less ``max_new_tokens``; a run
    is refused where fewer than 90% of the training pairs fit that."""
    grpo: dict[str, Any] = Field(default={})
    """Settings of TRL's ``GRPOConfig`` over the paper's objective (``tal_rlvr.trainer.PAPER``). With ``max_steps = 0``
    the run ends after the warm-up: supervised training alone."""

    @property
    def judge(self) -> ThinkSettings:
        """How the judge is asked; ``think.json`` keeps it beside the trained model."""
        return ThinkSettings(prompts=self.prompts, direct=self.direct, max_new_tokens=self.max_new_tokens)

    def backend_options(self, model: str) -> dict[str, str]:
        """Options of ``think:`` for the evaluation of one of the run's models."""
        backend, own = self.evaluation.backend, {}
        if self.revision is not None and model == self.model and backend != "openai":
            own["revision"] = self.revision
        if backend == "hf":
            own["packing"] = "on"  # an output is measured six times behind one prompt
        return {"backend": backend, **own, **self.evaluation.options}


def presets() -> list[str]:
    """Names of the shipped presets."""
    folder = resources.files("tal_rlvr") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_config(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Read a preset by name, or a TOML file. A file may begin with ``preset = "NAME"`` and change what it names.

    Args:
        name_or_path: ``demo-cpu``, ..., or a path.
        overrides: the values that replace those of the file, nested in the same way.

    Raises:
        CarbError: no such preset or file, or a value is wrong; all wrong values are named.
    """
    values = _read(str(name_or_path))
    base = values.pop("preset", None)
    if base is not None:
        values = _merge(_read_preset(str(base)), values)
    values = _merge(values, overrides or {})
    return validate(TrainConfig, values, f"The training configuration {name_or_path} is not valid")


def _read(name: str) -> dict[str, Any]:
    if name in presets():
        return _read_preset(name)
    path = Path(name)
    if not path.is_file():
        raise CarbError(f"There is no configuration '{name}'. Give a TOML file, or one of: {', '.join(presets())}.")
    return parse_file(path, "training configuration")


def _read_preset(name: str) -> dict[str, Any]:
    if name not in presets():
        raise CarbError(f"There is no preset '{name}'; there is {', '.join(presets())}.")
    return parse_file(resources.files("tal_rlvr") / "presets" / f"{name}.toml", "preset")


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
