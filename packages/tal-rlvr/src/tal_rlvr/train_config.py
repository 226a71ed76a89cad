"""The configuration of a training run: one TOML file, presets."""

import json
from collections.abc import Callable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from carb_data import CarbError, Frozen, closest, parse_file, validate, write_whole
from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.mix import TrainingMix
from tal_rlvr.scorer import ThinkSettings
from tal_rlvr.trl_rewards import RewardConfig
from tal_rlvr.warmup import WarmupConfig

Values = dict[str, Any]
"""Values by name, as TOML holds them."""
OnLog = Callable[[str, int, Mapping[str, float]], None]
"""``(stage, step, values)``: called in the main process whenever a trainer logs."""
OnNote = Callable[[str], object]
"""Called in the main process with a sentence that a user should read, such as how many pairs are
left out."""


HELD_OUT_SETS = "held-out-sets.jsonl"
"""The sets of held-out pairs, in the folder of a run; ``carb run`` takes them."""


class LoraSettings(Frozen):
    """Low-rank adapters (Hu et al. 2021) in place of full tuning."""

    r: PositiveInt = 16
    alpha: PositiveInt = 32
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: str | tuple[str, ...] = "all-linear"


class EvaluationConfig(Frozen):
    """The evaluation before and after training, on pairs held out of every source."""

    backend: Literal["hf", "vllm", "openai"] = "hf"
    """The backend of the saved judges. A server of ``openai`` must serve each under the name of
    its folder."""
    options: dict[str, str] = Field(default={})
    """Options of the backend as in ``think:MODEL``, such as ``url``. All values are strings."""
    decoding: tuple[Literal["greedy", "sample"], ...] = ("greedy",)
    sets: tuple[str, ...] = ()
    """Evaluation sets (as ``carb_data.load`` takes them) that no training pair may come from."""
    on_contamination: Literal["stop", "drop"] = "stop"
    """``drop`` leaves out the found pairs, and reports them."""


class Needs(Frozen):
    """Needs of a preset; ``tal_rlvr.memory`` works out those of a run with its own model."""

    gpus: NonNegativeInt = 0
    memory_gb: PositiveFloat
    """Memory of one GPU; of the machine, where no GPU is needed."""
    minutes: PositiveFloat | None = None
    """Duration of the run in docs/train.md, from start to end; null if it was never measured."""


class TrainConfig(Frozen):
    """Everything that a run needs; ``load_config`` reads it from TOML."""

    model: str = Field(min_length=1)
    """Folder or hub id."""
    revision: str | None = None
    """Commit, tag or branch of ``model`` on the hub; null means the newest."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights in training. Every evaluation reads them in bfloat16 on a GPU, and in
    float32 on a CPU or with adapters."""
    out: Path
    """Folder for the checkpoints, the trained model and the reports."""
    seed: int = Field(default=0, ge=0, lt=2**32)
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
    max_prompt_tokens: PositiveInt | None = None
    """Pairs with a longer prompt are left out, and counted. Default: the model's context less
    ``max_new_tokens``; a run is refused where fewer than 90% of the training pairs fit that."""
    needs: Needs | None = None
    grpo: Values = Field(default={})
    """Settings of TRL's ``GRPOConfig`` over the paper's objective (``tal_rlvr.trainer.PAPER``).
    With ``max_steps = 0`` the run ends after the warm-up: supervised training alone."""

    @model_validator(mode="after")
    def _is_rewarded(self) -> Self:
        if self.direct and not self.rewards.correctness_weight + self.rewards.format_weight:
            raise ValueError("with direct there is no R_appr: another reward must have a weight")
        return self

    def loading(self, model: str | Path) -> Values:
        """How transformers loads one of the run's models for training."""
        options: Values = {"dtype": self.dtype}
        if self.revision is not None and str(model) == self.model:
            options["revision"] = self.revision
        return options

    @property
    def judge(self) -> ThinkSettings:
        """The judge's prompts; ``think.json`` keeps it beside the trained model."""
        return ThinkSettings(
            prompts=self.prompts, direct=self.direct, max_new_tokens=self.max_new_tokens
        )

    def backend_options(self, model: str) -> dict[str, str]:
        """Options of ``think:`` for the evaluation of one of the run's models."""
        backend = self.evaluation.backend
        options: dict[str, str] = {"backend": backend}
        if self.revision is not None and model == self.model and backend != "openai":
            options["revision"] = self.revision
        return options | self.evaluation.options


def presets() -> list[str]:
    """Names of the shipped presets."""
    files = (resources.files("tal_rlvr") / "presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files)


def preset_needs() -> dict[str, Needs]:
    """The machine and the time of each preset, by its name."""
    return {name: Needs.model_validate(_read(name)["needs"]) for name in presets()}


def load_config(
    name_or_path: str | Path, overrides: Mapping[str, Any] | None = None
) -> TrainConfig:
    """Read a preset by name, or a TOML file. A file may begin with ``preset = "NAME"`` and change
    what it names.

    Args:
        name_or_path: ``demo-cpu``, ..., or a path.
        overrides: the values that replace those of the file, nested in the same way.

    Raises:
        CarbError: no such preset or file, or a value is wrong; all wrong values are named.
    """
    values = _merge(_read(str(name_or_path)), overrides or {})
    written = json.dumps(values, default=str).encode()
    owner = f"The training configuration {name_or_path} is not valid"
    return validate(TrainConfig, written, owner, strict=True)


def write_json(path: Path, content: BaseModel) -> None:
    """Write a model as JSON, whole or not at all."""
    write_whole(path, content.model_dump_json(indent=1) + "\n")


def _read(name: str, above: tuple[str, ...] = ()) -> Values:
    """The values of a preset or a file, over those of the preset that it names."""
    if name in above:
        raise CarbError(f"{name} names itself as its preset, in the end. Name another one.")
    source: Traversable = Path(name)
    if name in presets():
        source = resources.files("tal_rlvr") / "presets" / f"{name}.toml"
    elif not source.is_file():
        raise CarbError(
            f"There is no configuration '{name}'.{closest(name, presets())} Give a TOML file, or "
            f"one of: {', '.join(presets())}."
        )
    values = parse_file(source, "training configuration")
    base = values.pop("preset", None)
    if base is None:
        return values
    return _merge(_read(str(base), (*above, name)), values)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Values:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = value
        # Rewards that name a base begin with it, and not with the changes of a preset.
        if isinstance(old, Mapping) and isinstance(value, Mapping) and "base" not in value:
            merged[key] = _merge(old, value)
    return merged
