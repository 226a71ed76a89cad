"""The needs of a run around its stages: checked pairs, settings of the libraries, whole weights on
disk."""

from tal_rlvr.trainer import paper_config  # isort: skip  # before torch: names the missing extra
import importlib.util
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import torch
from accelerate import PartialState
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import get_reporting_integration_callbacks
from transformers.integrations.deepspeed import unset_hf_deepspeed_config
from trl import GRPOConfig

from carb_data import CarbError, Frozen, MissingExtraError, check_language, load, parse_file
from carb_scorers.models.protocol import read_backend_options
from tal_rlvr.judge_prompts import check_prompts
from tal_rlvr.memory import Shape, check_fits, needed
from tal_rlvr.mix import MixAccount, Parts
from tal_rlvr.mix_check import report_contamination
from tal_rlvr.scorer import ADAPTER, open_judge
from tal_rlvr.train_config import HELD_OUT_SETS, LoraSettings, OnNote, TrainConfig, write_json
from tal_rlvr.warmup import Target, read_targets


class _OfBackend(Frozen):
    """The evaluation asks as the run's own settings say; what is left are the backend's options."""

    backend: str


class CheckedPairs(NamedTuple):
    """The pairs left after the check against the held-out pairs and the evaluation sets."""

    parts: Parts
    targets: list[Target]
    """Judgements of ``warmup.targets``."""
    dropped: int
    """Training pairs that repeat evaluation items."""


def check_backend(config: TrainConfig) -> None:
    """Refuse settings with which the evaluation cannot open, before any training. Nothing is loaded
    or asked.

    Raises:
        CarbError: an option of the backend is wrong, or its library is not installed.
    """
    options = config.backend_options(config.model)
    if "backend" in config.evaluation.options:
        raise CarbError("[evaluation] options: 'backend' stands beside the options.")
    read_backend_options(_OfBackend, "[evaluation] options", options)
    asked = config.evaluation.backend == "vllm" or config.grpo.get("use_vllm")
    if asked and importlib.util.find_spec("vllm") is None:
        raise MissingExtraError("vllm", "tal-rlvr[gpu]")
    if config.evaluation.backend == "openai":
        open_judge(
            "[evaluation] options", config.model, options, config.judge
        )  # reads the URL and the key


def checked_parts(config: TrainConfig, on_note: OnNote | None) -> CheckedPairs:
    """The pairs and warm-up targets, after the check; reports are written beside the checkpoints.

    Raises:
        CarbError: training pairs come from evaluation sets, and the configuration does not say to
            drop them.
    """
    targets = []
    if config.warmup.targets is not None:
        targets = read_targets(config.warmup.targets, direct=config.direct)
    parts, account = config.mix.mixed()
    _check_same_pairs(config.out, account)
    learned = [*parts.train, *(row.pair for row, _ in targets)]
    report = report_contamination(parts._replace(train=learned), config.evaluation.sets)
    if PartialState().is_main_process:
        write_json(config.out / "mix.json", account)
        write_json(config.out / "contamination.json", report)
        sets = config.mix.held_out_sets(parts.held_out)
        if sets is not None:
            sets.save(config.out / HELD_OUT_SETS)
        for sentence in account.notes():
            (on_note or (lambda _: None))(sentence)
    if report.repeated and config.evaluation.on_contamination == "stop":
        first = next(overlap for overlap in report.repeated if overlap.test is not None)
        raise CarbError(
            f"{len(report.repeated)} training pairs repeat evaluation items (first: "
            f"'{first.train}' and '{first.test}', "
            f"similarity {first.similarity:.2f}); see {config.out / 'contamination.json'}. "
            "Remove them, or set "
            f'evaluation.on_contamination = "drop".'
        )
    named = {overlap.train for overlap in report.repeated}
    kept = [pair for pair in parts.train if pair.id not in named]
    if not kept:
        raise CarbError(
            "Every training pair repeats an evaluation item; nothing is left to train on."
        )
    return CheckedPairs(
        parts._replace(train=kept),
        [(row, text) for row, text in targets if row.pair.id not in named],
        len(parts.train) - len(kept),
    )


def _check_same_pairs(out: Path, account: MixAccount) -> None:
    """A run that was begun goes on with the pairs that it began with."""
    before = out / "mix.json"
    if not ((out / "config.json").is_file() and before.is_file()):
        return
    if json.loads(before.read_bytes()).get("pairs_sha256") != account.pairs_sha256:
        raise CarbError(
            f"{out} holds a run on other pairs: a file of [mix] sources has changed since. Resume "
            "it with that file as it was, or choose another 'out'."
        )


MANAGED = parse_file(resources.files("tal_rlvr") / "resources" / "managed.json", "list of settings")
"""Settings of ``GRPOConfig`` and ``model_init_kwargs`` that a run takes from its own, and where."""


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Portion = Annotated[float, Field(gt=0, le=1)]
_Count = Annotated[int, Field(ge=1)]
BOUNDS: dict[str, Any] = {
    "model_init_kwargs": dict[str, Any],
    "loss_type": Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"],
    "importance_sampling_level": Literal["token", "sequence"],
    "scale_rewards": Literal["group", "batch", "none"],
    "vllm_mode": Literal["server", "colocate"],
    "learning_rate": _Positive,
    "temperature": _Positive,
    "epsilon": _Positive,
    "save_steps": _Positive,
    "delta": _Positive,
    "epsilon_high": _Positive,
    "max_steps": Annotated[int, Field(ge=-1)],
    "top_entropy_quantile": Annotated[float, Field(ge=0, le=1)],
    "num_train_epochs": _Positive,
    "beta": _Weight,
    "weight_decay": _Weight,
    "max_grad_norm": _Weight,
    "top_p": _Portion,
    "vllm_gpu_memory_utilization": _Portion,
    "per_device_train_batch_size": _Count,
    "gradient_accumulation_steps": _Count,
    "num_iterations": _Count,
    "steps_per_generation": _Count,
    "save_total_limit": _Count,
}
"""The values that each setting may have. TRL takes others, too, and computes something else."""


def grpo_arguments(config: TrainConfig, base: str) -> GRPOConfig:
    """TRL's arguments of the reinforced stage; building them reads no data and no weights.

    They also fix the settings of the process group, so they are built before anything else asks
    for it.

    Raises:
        CarbError: a setting is unknown, wrong, or one of ``MANAGED``.
    """
    _check_types(config.grpo)
    given = config.grpo.get("model_init_kwargs", {})
    for name in (*config.grpo, *given):
        if name in MANAGED:
            raise CarbError(f"[grpo] {name} cannot be set: {MANAGED[name]}.")
    loading = {**config.loading(base), **given}
    settings = {
        "logging_steps": 1,
        "disable_tqdm": True,
        **device_settings(),
        **config.grpo,
        "model_init_kwargs": loading,
        "max_completion_length": config.max_new_tokens,
        "seed": config.seed,
        "output_dir": str(config.out / "checkpoints"),
    }
    try:
        arguments = paper_config(**settings)
    except (TypeError, ValueError, AttributeError, ImportError, RuntimeError) as error:
        raise CarbError(f"The settings under [grpo] are not valid: {error}.") from None
    if arguments.use_cpu and "ddp_timeout" in config.grpo:
        raise CarbError("[grpo] ddp_timeout has no effect on a CPU. Leave it out.")
    judged = arguments.eval_strategy != "no" or arguments.eval_on_start
    if judged and not config.mix.dev:
        raise CarbError("[grpo] eval_strategy judges no pairs: set [mix] dev, or leave it out.")
    _check_resumable(arguments)
    _check_reports(arguments.report_to)
    return arguments


def _check_reports(names: Sequence[str]) -> None:
    """A tracker that is not there would stop a run after its warm-up."""
    for name in names:
        try:
            get_reporting_integration_callbacks([name])[0]()
        except ValueError as error:
            raise CarbError(f"[grpo] report_to: {error}") from None
        except RuntimeError as error:
            if name in ("trackio", "wandb"):
                raise MissingExtraError(name, f"tal-rlvr[{name}]") from None
            raise CarbError(f"[grpo] report_to: {error}") from None


def _check_resumable(arguments: GRPOConfig) -> None:
    """A checkpoint within a batch of outputs would go on with other outputs than the run that never
    stopped."""
    if arguments.save_strategy == "no":
        return
    if arguments.save_only_model:
        raise CarbError(
            "[grpo] save_only_model keeps no optimizer, so the run could not be resumed. Leave it "
            'out, or set save_strategy = "no".'
        )
    batches = arguments.steps_per_generation * arguments.num_iterations
    steps = batches // math.gcd(batches, arguments.gradient_accumulation_steps)
    aligned = arguments.save_strategy == "steps" and arguments.save_steps % steps == 0
    if steps > 1 and not aligned:
        raise CarbError(
            f"[grpo] outputs are used for {steps} steps, so a run resumes exactly only at every "
            f'{steps}th. Set save_strategy = "steps" and save_steps to a multiple of {steps}.'
        )


def last_whole_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint before the last step whose files are all there and whole; null where
    none is.

    A process that is killed while it writes leaves a checkpoint without its last file or with one
    that ends early. From a checkpoint of the last step the trainer would take one step more.
    """
    whole = filter(_is_whole, folder.glob("checkpoint-*"))
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def _is_whole(checkpoint: Path) -> bool:
    weights = [*checkpoint.glob("*.safetensors"), *checkpoint.glob("pytorch_model*")]
    optimizer = [*checkpoint.glob("optimizer*"), *checkpoint.glob("global_step*")]
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_bytes())
        index = checkpoint / "model.safetensors.index.json"
        shards = json.loads(index.read_bytes())["weight_map"].values() if index.is_file() else ()
        of_another_step = checkpoint.name != f"checkpoint-{state['global_step']}"
        if of_another_step or {*shards} - {path.name for path in weights}:
            return False
        if state["global_step"] >= state["max_steps"]:
            return False
        for path in checkpoint.glob("*.safetensors"):
            with safe_open(path, "pt"):  # reads the header, and refuses a file that ends early
                pass
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return False
    draws = list(checkpoint.glob("rng_state*.pth"))
    archives = [*draws, *filter(Path.is_file, checkpoint.glob("*.pt"))]
    if not (weights and optimizer and draws):
        return False
    return all(map(zipfile.is_zipfile, archives))


def _check_types(grpo: Mapping[str, Any]) -> None:
    """TRL checks few types itself: a text in place of a number fails when a step computes it."""
    kinds = get_type_hints(GRPOConfig) | BOUNDS
    for name, value in grpo.items():
        try:
            kind = TypeAdapter(kinds.get(name, Any))
            kind.validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise CarbError(f"[grpo] {name} is {value!r}: {reason}.") from None
    if grpo.get("max_steps", -1) > 0 and "num_train_epochs" in grpo:
        raise CarbError("[grpo] num_train_epochs has no effect beside max_steps. Leave one out.")


def check_settings(config: TrainConfig) -> None:
    """Refuse wrong settings before data are read.

    Raises:
        CarbError: there is no GPU, or something that the run will need cannot be built.
    """
    needs = config.needs
    if needs is not None and needs.gpus and not torch.cuda.is_available():
        raise CarbError(
            f"The configuration is made for {needs.gpus} GPUs of {needs.memory_gb:.0f} GB; this "
            "machine has none. Start it on one that has, take --config demo-cpu, or set "
            "needs.gpus = 0 for a small model."
        )
    nearest = next(path for path in (config.out, *config.out.absolute().parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    if config.out == Path() or not writable:
        raise CarbError(f"Cannot write into {config.out}: 'out' must be a folder of the run's own.")
    check_prompts(config.prompts)
    for source in config.mix.sources:
        for tag in filter(None, (source.language, *source.languages)):
            check_language(tag)
    for name in config.evaluation.sets:
        load(name)
    check_backend(config)
    grpo_arguments(config, config.model)
    context(config)


@contextmanager
def reading(part: str, model: str | Path) -> Iterator[None]:
    """A block in which transformers reads a part of a model.

    Raises:
        CarbError: it cannot.
    """
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise CarbError(f"Cannot load the {part} of '{model}': {reason}") from None


def _without_weights(config: TrainConfig) -> Any:
    with reading("configuration", config.model), torch.device("meta"):
        shape = AutoConfig.from_pretrained(config.model, revision=config.revision)
        return AutoModelForCausalLM.from_config(shape)


def check_adapters(config: TrainConfig) -> None:
    """Refuse adapters for modules that the model does not have; no weights are read.

    Raises:
        CarbError: none of the modules is there, or they cannot be adapted.
    """
    if config.lora is None:
        return
    from peft import LoraModel

    modules = config.lora.target_modules
    alone: list[Any] = [modules]
    if not isinstance(modules, str):  # peft refuses a list where it knows none of its names
        alone = [(name,) for name in modules] or [()]
    for each in alone:
        adapters = lora(config.lora.changed(target_modules=each))
        try:
            LoraModel(_without_weights(config), adapters, "default")
        except ValueError as error:
            raise CarbError(f"[lora] target_modules: {error}") from None


def check_memory(config: TrainConfig, longest_prompt: int) -> None:
    """Refuse a run that this machine, or its GPU, cannot hold; no weights are read.

    Raises:
        CarbError: it needs more; see ``tal_rlvr.memory``.
    """
    model = _without_weights(config)
    text = model.config.get_text_config()
    shape = Shape(
        parameters=sum(weight.numel() for weight in model.parameters()),
        hidden=text.hidden_size,
        # null where it follows from the width, as in GPT-2
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        layers=text.num_hidden_layers,
        vocabulary=text.vocab_size,
    )
    state = PartialState()
    sharded = str(state.distributed_type.value) in ("FSDP", "DEEPSPEED")
    shards = 1
    if sharded:
        shards = state.num_processes
    need = needed(config, shape, longest_prompt, shards)
    if not torch.cuda.is_available():
        check_fits(need, machine_memory(), "This machine")
        return
    share = 0
    if config.grpo.get("use_vllm"):
        share = config.grpo.get("vllm_gpu_memory_utilization", 0.3)
    total = torch.cuda.get_device_properties(0).total_memory / 1e9
    check_fits(need, total * (1 - share), "The GPU, less what vLLM takes,")


def machine_memory() -> float:
    """Gigabytes of the machine, or of the container that the process runs in."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no container, or one without a limit
        limit = pages
    return min(pages, limit) / 1e9


def context(config: TrainConfig) -> int | None:
    """Longest prompt and output together that the model takes, in tokens; null where its
    configuration does not say.

    Raises:
        CarbError: the run's are longer.
    """
    shape = _without_weights(config).config.get_text_config()
    longest = getattr(shape, "max_position_embeddings", None)
    if not longest:
        return None
    written = config.max_new_tokens
    prompt = config.max_prompt_tokens
    if (prompt or 1) + written > longest:
        raise CarbError(
            f"The model's context has {longest} tokens: max_new_tokens = {written} and "
            f"max_prompt_tokens = {prompt} do not fit. Lower them."
        )
    return int(longest)


def device_settings() -> dict[str, Any]:
    """Settings of a trainer for the device that is there."""
    if torch.cuda.is_available():
        return {"bf16": True}
    return {
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
    }


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


def whole_weights() -> None:
    """Let models that are loaded from now on have whole weights.

    Under ZeRO-3, training arguments make transformers partition every model loaded afterwards; an
    evaluation would get empty tensors. The next trainer's arguments set it again.
    """
    unset_hf_deepspeed_config()


def load_weights(model: str | Path, config: TrainConfig) -> Any:
    """A model with whole weights, in the dtype and, where it is the run's own, the revision of the
    configuration.

    Raises:
        CarbError: it cannot be loaded, or has not the weights that its configuration describes.
    """
    whole_weights()
    told = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    with reading("weights", model):
        loaded, report = AutoModelForCausalLM.from_pretrained(
            model, **told, **config.loading(model)
        )
    unfit = [*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])]
    if unfit:
        raise CarbError(
            f"The weights of '{model}' do not have {', '.join(unfit[:3])} as its config.json "
            "describes it, and random numbers would be trained. Take the folder whole, or another "
            "model."
        )
    check_finite(loaded, f"of '{model}'")
    return loaded


def check_finite(model: Any, which: str) -> None:
    """Refuse weights with NaN or infinity, of those that this process holds.

    Raises:
        CarbError: there are some; the message says where.
    """
    for name, weight in model.named_parameters():
        held = getattr(weight, "_local_tensor", weight)  # FSDP's weights are in parts
        if not held.isfinite().all():
            raise CarbError(
                f"The weights {which} hold numbers that are not finite, in {name}. Take another "
                "model, or a lower learning_rate."
            )


def save_whole(trainer: Any, base: str, folder: Path, config: TrainConfig) -> None:
    """Save a trained model in one piece; every process must call it.

    The trainer gathers sharded weights. Adapters are saved beside the model. The main process
    merges them into the base, loaded whole in float32, since the trainer's memory may hold a shard.

    Args:
        trainer: the trainer of TRL that holds the model.
        base: folder or hub id of the model that was trained.
        folder: the folder to write.
        config: the configuration of the run.
    """
    if not hasattr(trainer.accelerator.unwrap_model(trainer.model), "merge_and_unload"):
        trainer.save_model(str(folder))
        return
    trainer.save_model(str(folder / ADAPTER))
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        from peft import PeftModel

        # in bfloat16 a merge would round most of a small change away
        whole = load_weights(base, config.changed(dtype="float32"))
        PeftModel.from_pretrained(whole, str(folder / ADAPTER)).merge_and_unload().save_pretrained(
            folder
        )
    trainer.accelerator.wait_for_everyone()
