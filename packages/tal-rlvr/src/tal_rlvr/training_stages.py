"""The stages of a run, on torch, TRL and peft."""

import tal_rlvr.trainer  # noqa: F401  # isort: skip  # before torch: names the missing extra
import gc
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PrinterCallback,
    TrainerCallback,
)
from trl import SFTConfig, SFTTrainer

from carb_data import CarbError
from carb_scorers import wait_for
from carb_scorers.models.hf_loading import TemplateOptions, set_chat_template
from tal_rlvr.curve import LEFT, TOTAL
from tal_rlvr.held_out import HeldOut, Named, evaluate_held_out, summarise
from tal_rlvr.lengths import Lengths, check_targets, fitting
from tal_rlvr.mix import Parts, ordered
from tal_rlvr.preferences import OrderedPair, Pair
from tal_rlvr.scorer import THINK, open_judge
from tal_rlvr.train_config import OnLog, OnNote, TrainConfig, write_json
from tal_rlvr.trainer import ThinkAsLocalsTrainer, training_rows
from tal_rlvr.training_setup import (
    CheckedPairs,
    check_adapters,
    check_finite,
    check_memory,
    context,
    device_settings,
    grpo_arguments,
    last_whole_checkpoint,
    load_weights,
    lora,
    reading,
    save_whole,
    whole_weights,
)
from tal_rlvr.verdict_tokens import encode_prompt, verdict_tokens
from tal_rlvr.warmup import Target, repeated, tokenised, warmup_rows

Rows = Sequence[OrderedPair]
KEPT = (
    "What was trained is kept. Remove the cause (a server must serve the model under this name), "
    "and run again with --resume."
)
MANY = 256
"""Pairs of a rehearsal: twice as many prompts, which are enough for a batch."""


class Reinforced(NamedTuple):
    """The results of the reinforced stage."""

    model: str
    curve: list[dict[str, float]]
    """The log of each step."""
    dev: list[dict[str, float]]
    """The log of the pairs of ``mix.dev``."""
    steps: int


class TrainingRun:
    """One run's folder, tokenizer and settings."""

    def __init__(
        self, config: TrainConfig, on_log: OnLog | None = None, on_note: OnNote | None = None
    ) -> None:
        self.config = config
        self.on_log = on_log
        self.on_note = on_note
        self.state = PartialState()
        with reading("tokenizer", config.model):
            self.tokenizer = AutoTokenizer.from_pretrained(config.model, revision=config.revision)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if config.prompts.template:
            given = json.dumps(config.prompts.template)
            set_chat_template(self.tokenizer, TemplateOptions(chat_template_kwargs=given))
        verdict_tokens(self.tokenizer)  # refuses an unfit tokenizer before any work is done

    def rehearse(self) -> None:
        """Take one step of GRPO with a tiny model and a made-up pair, in a folder of its own.

        Libraries refuse many settings only in a step, which would be after the warm-up. Launched on
        several processes, nothing is rehearsed.

        Raises:
            CarbError: the step fails, or the adapters do not fit the model.
        """
        check_adapters(self.config)
        with TemporaryDirectory() as folder:
            self._rehearse(folder)

    def _rehearse(self, folder: str) -> None:
        # No tracker hears of it, and no engine starts for it.
        grpo = self.config.grpo | {
            "max_steps": 1,
            "eval_steps": 1,
            "report_to": "none",
            "use_vllm": False,
        }
        grpo.pop("num_train_epochs", None)
        _tiny(len(self.tokenizer)).save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        changes: dict[str, Any] = {
            "model": folder,
            "revision": None,
            "lora": None,
            "out": Path(folder),
            "max_new_tokens": 8,
            "grpo": grpo,
        }
        small = TrainingRun(self.config.changed(**changes))
        same = dict.fromkeys(("id", "source_item", "prompt", "chosen", "rejected"), "1")
        pair = Pair(**same, culture="general", language="en")
        if self.config.evaluation.backend == "hf":
            try:
                wait_for(small._held_out, folder, ordered([pair], shuffle=False), ["greedy"])
            except CarbError as error:
                raise CarbError(f"[evaluation] options, tried with a tiny model: {error}") from None
        if self.state.num_processes > 1 or self.config.grpo.get("max_steps") == 0:
            return
        try:
            small.reinforce(folder, Parts([pair] * MANY, [], [pair]))
        except Exception as error:  # a library's, of any type; it stays as the cause
            raise CarbError(
                f"[grpo] A step, rehearsed with a tiny model, fails: {error!r}."
            ) from error

    def begin(self) -> None:
        """Keep the settings: a run that goes on must have the same."""
        if self.is_main:
            write_json(self.config.out / "config.json", self.config)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return bool(self.state.is_main_process)

    def fit(self, checked: CheckedPairs) -> tuple[Parts, Lengths]:
        """The pairs whose prompts fit, once it is sure that the warm-up's targets do; see
        ``tal_rlvr.lengths``."""

        def count(rows: Rows) -> list[int]:
            asked = [row["prompt"] for row in self._rows(rows)]
            return [len(encode_prompt(self.tokenizer, prompt)) for prompt in asked]

        longest = self.config.max_new_tokens
        kept, lengths = fitting(
            checked.parts,
            count,
            max_new_tokens=longest,
            context=context(self.config),
            max_prompt_tokens=self.config.max_prompt_tokens,
        )
        for part in ("held_out", "dev"):
            share = getattr(self.config.mix, part)
            if share and not getattr(kept, part):
                raise CarbError(f"[mix] {part} = {share} leaves no pair. Raise it, or set it to 0.")
        longest_prompt = lengths.longest_prompt
        check_memory(self.config, min(longest_prompt, lengths.room or longest_prompt))
        rows = self._targets(kept.train, checked.targets)
        check_targets(
            [len(tokenised(self.tokenizer, [], text)["input_ids"]) for _, text in rows], longest
        )
        if self.is_main:
            write_json(self.config.out / "lengths.json", lengths)
            if lengths.too_long:
                self._note(
                    f"{lengths.too_long} of {lengths.train_pairs} training pairs are left out: "
                    f"their prompts have more than {lengths.room} tokens."
                )
        return kept, lengths

    def _targets(self, pairs: Sequence[Pair], given: Sequence[Target]) -> list[Target]:
        """The targets of the warm-up: the judgements of a file, or stock phrases."""
        config = self.config
        if given:
            return repeated(given, config.warmup, seed=config.seed)
        return warmup_rows(
            ordered(pairs, seed=config.seed), config.warmup, seed=config.seed, direct=config.direct
        )

    def evaluate(self, name: str, model: str | Path, rows: Rows) -> list[Named]:
        """Evaluate a saved model on held-out pairs with every requested decoding; see ``_share``
        for the division of work."""
        if not rows:
            return []
        kept = {
            decoding: self.config.out / "held-out" / f"{name}-{decoding}.json"
            for decoding in self.config.evaluation.decoding
        }
        results: dict[str, HeldOut] = {}
        if name != "after":
            results = {
                decoding: HeldOut.model_validate_json(file.read_bytes())
                for decoding, file in kept.items()
                if file.is_file()
            }
        wanted = [decoding for decoding in kept if decoding not in results]
        rank, count = self._share
        count = min(
            count, len(rows) // 2
        )  # a pair's two orders, which stand side by side, stay together
        rows_here = [row for number, row in enumerate(rows) if number // 2 % count == rank]
        scored = []
        if wanted and rows_here:
            try:
                scored = wait_for(self._held_out, str(model), rows_here, wanted)
            except CarbError as error:
                raise CarbError(f"The evaluation of '{model}' failed: {error} {KEPT}") from None
        shares: list[list[HeldOut]] = [scored]
        if self.state.num_processes > 1:
            shares = gather_object([scored])
        for index, decoding in enumerate(wanted):
            parts = [iter(share[index].outcomes) for share in shares[:count]]
            outcomes = [next(parts[number // 2 % count]) for number in range(len(rows))]
            results[decoding] = summarise(outcomes, decoding)
            if self.is_main:
                write_json(kept[decoding], results[decoding])
        self.state.wait_for_everyone()
        return [(name, results[decoding]) for decoding in kept]

    async def _held_out(
        self,
        model: str,
        rows: Rows,
        decodings: Sequence[Literal["greedy", "sample"]],
    ) -> list[HeldOut]:
        # of the models that are loaded from now on; and what training held is given back
        whole_weights()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        options = self.config.backend_options(model)
        settings = self.config.judge
        if self.config.evaluation.backend == "hf":
            options = {"device": str(self.state.device), **options}
        if self.config.evaluation.backend != "openai":  # one dtype for every model of the run
            # bfloat16 would round the change by adapters away
            half = torch.cuda.is_available() and self.config.lora is None
            options = {"dtype": "bfloat16" if half else "float32", **options}
        judge, _ = open_judge("evaluation", model, options, settings)
        try:
            return [
                await evaluate_held_out(
                    judge, rows, settings, decoding=decoding, seed=self.config.seed
                )
                for decoding in decodings
            ]
        finally:
            await judge.aclose()

    @property
    def _share(self) -> tuple[int, int]:
        """The number of this process, and how many processes evaluate: all of them with
        transformers. The main process alone uses a backend with workers of its own."""
        count = self.state.num_processes
        if self.config.evaluation.backend != "hf":
            count = 1
        return self.state.process_index, count

    def warm_up(self, pairs: Sequence[Pair], given: Sequence[Target]) -> str:
        """Supervised training on the form; returns the model to go on with. A finished warm-up is
        used again."""
        settings = self.config.warmup
        folder = self.config.out / "warmup"
        steps = settings.steps_for(len(given))
        kept = (folder / THINK).is_file()
        if kept or steps == 0:
            base = str(folder) if kept else self.config.model
            if self.is_main:
                load_weights(base, self.config)  # TRL fills what lacks with random numbers
            return base
        if folder.is_dir():
            self._note(
                f"The warm-up was interrupted, and keeps no checkpoint: its {steps} steps "
                "begin anew."
            )
        trainer = self._supervised(folder, self._examples(pairs, given), steps)
        self._train(trainer, "warm-up")
        self._keep(trainer, self.config.model, folder)
        return str(folder)

    def _examples(self, pairs: Sequence[Pair], given: Sequence[Target]) -> Dataset:
        """The targets of the warm-up, in tokens."""
        targets = self._targets(pairs, given)
        rows = self._rows([row for row, _ in targets])
        examples = []
        for row, (_, target) in zip(rows, targets, strict=True):
            prompt = encode_prompt(self.tokenizer, row["prompt"])
            examples.append(tokenised(self.tokenizer, prompt, target))
        return Dataset.from_list(examples)

    def _supervised(self, folder: Path, examples: Dataset, steps: int) -> SFTTrainer:
        settings = self.config.warmup
        folder.mkdir(parents=True, exist_ok=True)
        return SFTTrainer(
            model=load_weights(self.config.model, self.config).to(self.state.device),
            args=SFTConfig(
                output_dir=str(folder / "log"),
                max_steps=steps,
                per_device_train_batch_size=max(1, settings.batch_size // self.state.num_processes),
                learning_rate=settings.learning_rate,
                lr_scheduler_type="linear",
                warmup_steps=min(5, steps),
                completion_only_loss=True,
                shuffle_dataset=False,
                max_length=None,
                seed=self.config.seed,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                **device_settings(),
            ),
            train_dataset=examples,
            processing_class=self.tokenizer,
            peft_config=lora(self.config.lora),
        )

    def reinforce(self, base: str, parts: Parts, *, resume: bool = False) -> Reinforced:
        """GRPO from ``base``.

        With ``grpo.max_steps = 0`` the run is supervised training alone, and ``base`` is the
        trained model.
        """
        config = self.config
        if config.grpo.get("max_steps") == 0:
            return Reinforced(base, [], [], 0)
        arguments = grpo_arguments(config, base)
        checkpoints = Path(arguments.output_dir)
        dev_rows = None
        if parts.dev:
            dev_rows = Dataset.from_list(self._rows(ordered(parts.dev, shuffle=False)))
        trainer = ThinkAsLocalsTrainer(
            base,
            arguments,
            Dataset.from_list(self._rows(ordered(parts.train, seed=config.seed))),
            self.tokenizer,
            rewards=config.rewards,
            direct=config.direct,
            peft_config=lora(config.lora),
            eval_dataset=dev_rows,
        )
        last = None
        if resume:
            last = last_whole_checkpoint(checkpoints)
        if last is not None:
            self._note(f"The run goes on from {last}.")
        self._train(trainer, "grpo", last)
        history = [_numbers(entry) for entry in trainer.state.log_history]
        curve = [entry for entry in history if "reward" in entry]
        dev = [entry for entry in history if "eval_reward" in entry]
        steps = int(trainer.state.global_step)
        self._keep(trainer, base, config.out / "model")
        return Reinforced(str(config.out / "model"), curve, dev, steps)

    def _note(self, sentence: str) -> None:
        if self.is_main and self.on_note is not None:
            self.on_note(sentence)

    def _rows(self, rows: Rows) -> list[dict[str, Any]]:
        config = self.config
        return training_rows(rows, self.tokenizer, config.prompts, direct=config.direct)

    def _train(self, trainer: Any, stage: str, last: Path | None = None) -> None:
        trainer.remove_callback(PrinterCallback)  # it prints to standard output
        if self.on_log is not None:
            trainer.add_callback(_Listener(stage, self.on_log))
        try:
            with redirect_stdout(sys.stderr):  # TRL prints there with log_completions
                trainer.train(resume_from_checkpoint=last and str(last))
        finally:  # also where they made a step fail
            check_finite(trainer.model, f"after the stage {stage}")

    def _keep(self, trainer: Any, base: str, folder: Path) -> None:
        """Save the trained model whole, adapters merged into it, with its tokenizer and its choice
        of prompt."""
        save_whole(trainer, base, folder, self.config)
        if self.is_main:
            self.tokenizer.save_pretrained(folder)
            write_json(folder / THINK, self.config.judge)
        self.state.wait_for_everyone()


def _tiny(vocabulary: int) -> LlamaForCausalLM:
    shape = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    return LlamaForCausalLM(shape)


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items() if isinstance(value, int | float)}


class _Listener(TrainerCallback):  # type: ignore[misc]  # transformers gives it no type
    def __init__(self, stage: str, on_log: OnLog) -> None:
        self.stage = stage
        self.on_log_call = on_log

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self.begun = time.monotonic()
        self.first_step = int(state.global_step)
        self.first_tokens = state.num_input_tokens_seen

    def on_log(
        self,
        _args: Any,
        state: Any,
        _control: Any,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if not state.is_world_process_zero:
            return
        values = _numbers(logs or {})
        done = int(state.global_step) - self.first_step
        if state.max_steps > 0:
            values[TOTAL] = float(state.max_steps)
        if done > 0 and state.max_steps > 0:
            seconds = (time.monotonic() - self.begun) / done
            values[LEFT] = seconds * (state.max_steps - int(state.global_step))
        if done > 0 and "num_tokens" in values:
            read = values["num_tokens"] - self.first_tokens
            values["tokens_per_second"] = read / (time.monotonic() - self.begun)
        self.on_log_call(self.stage, int(state.global_step), values)
