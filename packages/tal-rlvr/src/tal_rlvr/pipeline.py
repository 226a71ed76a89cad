"""The stages of a run, on torch, TRL and peft."""

from __future__ import annotations

import tal_rlvr._training  # noqa: F401  # isort: skip  # before torch: names the missing extra
import gc
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

from carb_data import CarbError
from carb_data.waiting import wait_for
from tal_rlvr.config import TrainConfig
from tal_rlvr.held_out import HeldOut, evaluate_held_out, summarise
from tal_rlvr.lengths import Lengths, check_targets, fitting
from tal_rlvr.mix import Parts, ordered
from tal_rlvr.pairs import OrderedPair, Pair
from tal_rlvr.preparing import Named, context, device_settings, lora
from tal_rlvr.scorer import open_judge
from tal_rlvr.sharded import save_whole, whole_weights
from tal_rlvr.tokens import encode_prompt, verdict_tokens
from tal_rlvr.train import CONFIG, THINK, OnLog, OnNote, write_json
from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config, training_rows
from tal_rlvr.warmup import tokenised, warmup_rows


class TrainingRun:
    """One run's folder, tokenizer and settings."""

    def __init__(self, config: TrainConfig, on_log: OnLog | None = None, on_note: OnNote | None = None) -> None:
        self.config = config
        self.on_log = on_log
        self.on_note = on_note
        self.state = PartialState()
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(config.model, revision=config.revision)
        except (OSError, ValueError) as error:
            raise CarbError(f"Cannot load the tokenizer of '{config.model}': {str(error).splitlines()[0]}") from None
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        verdict_tokens(self.tokenizer)  # refuses an unfit tokenizer before any work is done
        self.config_text = config.model_dump_json(indent=1)

    def __enter__(self) -> Self:
        if self.is_main:
            write_json(self.config.out / CONFIG, self.config_text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def note(self, text: str) -> None:
        """Say something in the main process, where somebody listens."""
        if self.is_main and self.on_note is not None:
            self.on_note(text)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return bool(self.state.is_main_process)

    def fit(self, parts: Parts) -> tuple[Parts, Lengths]:
        """The pairs whose prompts fit, once it is sure that the warm-up's targets do; see ``tal_rlvr.lengths``."""

        def count(rows: Sequence[OrderedPair]) -> list[int]:
            prompts = training_rows(rows, self.tokenizer, self.config.prompts, direct=self.config.direct)
            return [len(encode_prompt(self.tokenizer, row["prompt"])) for row in prompts]

        longest = self.config.max_new_tokens
        kept, lengths = fitting(
            parts,
            count,
            max_new_tokens=longest,
            context=context(self.config),
            max_prompt_tokens=self.config.max_prompt_tokens,
        )
        targets = [len(tokenised(self.tokenizer, [], text)["input_ids"]) for _, text in self._targets(kept.train)]
        check_targets(targets, longest)
        if self.is_main:
            write_json(self.config.out / "lengths.json", lengths.model_dump_json(indent=1))
        if lengths.too_long:
            self.note(
                f"{lengths.too_long} of {lengths.train_pairs} training pairs are left out: their prompts have more "
                f"than {lengths.room} tokens."
            )
        return kept, lengths

    def _targets(self, pairs: Sequence[Pair]) -> list[tuple[OrderedPair, str]]:
        config = self.config
        return warmup_rows(ordered(pairs, seed=config.seed), config.warmup, seed=config.seed, direct=config.direct)

    def evaluate(self, name: str, model: str | Path, rows: Sequence[OrderedPair]) -> list[Named]:
        """Evaluate a saved model on held-out pairs with every decoding asked for; see ``_share`` for who does what."""
        if not rows:
            return []
        kept = {
            decoding: self.config.out / "held-out" / f"{name}-{decoding}.json"
            for decoding in self.config.evaluation.decoding
        }
        known = {d: file for d, file in kept.items() if file.is_file() and name != "after"}
        results = {decoding: HeldOut.model_validate_json(file.read_bytes()) for decoding, file in known.items()}
        wanted = [decoding for decoding in kept if decoding not in results]
        rank, count = self._share
        own = wait_for(self._held_out, str(model), rows[rank::count], wanted) if wanted and rank < count else []
        shares: list[list[HeldOut]] = gather_object([own]) if self.state.num_processes > 1 else [own]
        for place, decoding in enumerate(wanted):
            parts = [share[place].outcomes for share in shares[:count]]
            held = summarise([parts[n % count][n // count] for n in range(len(rows))], decoding)
            if self.is_main:
                write_json(kept[decoding], held.model_dump_json(indent=1))
            results[decoding] = held
        self.state.wait_for_everyone()
        return [(name, results[decoding]) for decoding in kept]

    async def _held_out(
        self, model: str, rows: Sequence[OrderedPair], decodings: Sequence[Literal["greedy", "sample"]]
    ) -> list[HeldOut]:
        self._make_room()
        options, settings = self.config.backend_options(model), self.config.judge
        if self.config.evaluation.backend == "hf":
            options = {"device": str(self.state.device), **options}
        try:
            judge, _ = open_judge("evaluation", model, options, settings)
            try:
                return [
                    await evaluate_held_out(judge, rows, settings, decoding=decoding, seed=self.config.seed)
                    for decoding in decodings
                ]
            finally:
                await judge.aclose()
        except CarbError as error:
            raise CarbError(
                f"The evaluation of '{model}' failed: {error} What was trained is kept. Remove the cause (a server "
                f"must serve the model under this name), and go on with --resume."
            ) from None

    @property
    def _share(self) -> tuple[int, int]:
        """The number of this process among those that evaluate, and how many do: with transformers all share the work,
        and what has workers of its own is asked by the main process alone."""
        alone = self.config.evaluation.backend != "hf"
        return self.state.process_index, 1 if alone else self.state.num_processes

    def _make_room(self) -> None:
        """Give back what training held, and let the models that are loaded from now on have whole weights."""
        whole_weights()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def warm_up(self, pairs: Sequence[Pair]) -> str:
        """Supervised training on the form; returns the model to go on with. A finished warm-up is used again."""
        settings = self.config.warmup
        folder = self.config.out / "warmup"
        if settings.steps == 0:
            return self.config.model
        if (folder / THINK).is_file():
            return str(folder)
        rows = self._targets(pairs)
        prompts = training_rows(
            [row for row, _ in rows], self.tokenizer, self.config.prompts, direct=self.config.direct
        )
        examples = [
            tokenised(self.tokenizer, encode_prompt(self.tokenizer, prompt["prompt"]), target)
            for prompt, (_, target) in zip(prompts, rows, strict=True)
        ]
        processes = self.state.num_processes
        trainer = SFTTrainer(
            model=self._load(self.config.model),
            args=SFTConfig(
                output_dir=str(folder / "log"),
                max_steps=settings.steps,
                per_device_train_batch_size=max(1, settings.batch_size // processes),
                learning_rate=settings.learning_rate,
                lr_scheduler_type="linear",
                warmup_steps=min(5, settings.steps),
                completion_only_loss=True,
                shuffle_dataset=False,
                max_length=None,
                seed=self.config.seed,
                logging_steps=10,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                **device_settings(),
            ),
            train_dataset=Dataset.from_list(examples),
            processing_class=self.tokenizer,
            peft_config=lora(self.config.lora),
        )
        self._listen(trainer, "warm-up")
        trainer.train()
        self._keep(trainer, self.config.model, folder)
        return str(folder)

    def reinforce(
        self, base: str, pairs: Sequence[Pair], *, resume: bool = False
    ) -> tuple[Path, list[dict[str, float]], int]:
        """GRPO from ``base``; returns the trained model's folder, what was logged at each step, and the steps.

        With ``grpo.max_steps = 0`` the run is supervised training alone, and ``base`` is the trained model.
        """
        config = self.config
        if config.grpo.get("max_steps") == 0:
            return Path(base), [], 0
        rows = training_rows(
            ordered(pairs, seed=config.seed, shuffle=config.mix.curriculum == "none"),
            self.tokenizer,
            config.prompts,
            direct=config.direct,
        )
        checkpoints = config.out / "checkpoints"
        settings = {
            "max_completion_length": config.max_new_tokens,
            "seed": config.seed,
            "logging_steps": 1,
            "disable_tqdm": True,
            "shuffle_dataset": config.mix.curriculum == "none",
            **device_settings(),
            **config.grpo,
            "output_dir": str(checkpoints),
        }
        try:
            arguments = paper_config(**settings)
        except (TypeError, ValueError) as error:
            raise CarbError(f"The settings under [grpo] are not valid: {error}.") from None
        trainer = ThinkAsLocalsTrainer(
            base,
            arguments,
            Dataset.from_list(rows),
            self.tokenizer,
            rewards=config.rewards,
            direct=config.direct,
            peft_config=lora(config.lora),
        )
        self._listen(trainer, "grpo")
        last = get_last_checkpoint(str(checkpoints)) if resume and checkpoints.is_dir() else None
        trainer.train(resume_from_checkpoint=last)
        folder = config.out / "model"
        curve = [
            {key: float(value) for key, value in entry.items() if isinstance(value, int | float)}
            for entry in trainer.state.log_history
            if "reward" in entry
        ]
        steps = int(trainer.state.global_step)
        self._keep(trainer, base, folder)
        return folder, curve, steps

    def _listen(self, trainer: Any, stage: str) -> None:
        trainer.remove_callback(PrinterCallback)  # it prints to standard output
        if self.on_log is not None:
            trainer.add_callback(_Listener(stage, self.on_log))

    def _load(self, model: str | Path) -> Any:
        whole_weights()
        revision = self.config.revision if str(model) == self.config.model else None
        try:
            loaded = AutoModelForCausalLM.from_pretrained(
                model, revision=revision, dtype=torch.float32 if not torch.cuda.is_available() else "auto"
            )
        except (OSError, ValueError) as error:
            raise CarbError(f"Cannot load the model '{model}': {str(error).splitlines()[0]}") from None
        return loaded.to(self.state.device)

    def _keep(self, trainer: Any, base: str, folder: Path) -> None:
        """Save the trained model whole, adapters merged into it, with its tokenizer and its choice of prompt."""
        save_whole(trainer, base, folder, revision=self.config.revision if base == self.config.model else None)
        if self.is_main:
            self.tokenizer.save_pretrained(folder)
            write_json(folder / THINK, self.config.judge.model_dump_json(indent=1))
        self.state.wait_for_everyone()


class _Listener(TrainerCallback):  # type: ignore[misc]  # transformers gives it no type
    def __init__(self, stage: str, on_log: OnLog) -> None:
        self.stage = stage
        self.on_log_call = on_log

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if state.is_world_process_zero:
            values = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)}
            self.on_log_call(self.stage, int(state.global_step), values)
