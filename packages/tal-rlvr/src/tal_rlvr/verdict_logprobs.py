"""Log-probabilities of both verdicts from a transformers model, or from a trainer's live policy."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from carb_data import require
from carb_scorers.models.shared_prefix import outputs_behind
from tal_rlvr.judge_rewards import OfVerdicts, VerdictRow
from tal_rlvr.verdict_tokens import VerdictTokens

Rows = Sequence[VerdictRow]
BUDGET = 16_384
"""Tokens in one forward pass, padding included."""


class PolicyVerdicts:
    """Verdict log-probabilities of the policy that a TRL trainer is training, as it is now.

    The trainer's own module is called, not an unwrapped one, so that FSDP gathers its shards. For
    the same reason every process runs the same number of forward passes. ZeRO-3 gathers them as for
    generation. It learns the order of weights from forward passes, and one without a backward pass
    teaches a wrong order.
    """

    def __init__(self, trainer: Any, tokens: VerdictTokens, *, budget: int) -> None:
        self.trainer = trainer
        self.tokens = tokens
        self.budget = budget

    def __call__(self, rows: Rows) -> list[OfVerdicts]:
        torch = require("torch", "tal-rlvr[train]")
        accelerator = self.trainer.accelerator
        window = sliding_window(self.trainer.model)
        count = len(passes_of(rows, budget=self.budget, window=window))
        counts = accelerator.gather(torch.tensor([count], device=accelerator.device))
        passes = int(counts.max())
        share = accelerator.num_processes == 1
        with self._gathered() as model:
            return verdict_logprobs(
                model, rows, self.tokens, budget=self.budget, share_prefix=share, passes=passes
            )

    def _gathered(self) -> AbstractContextManager[Any]:
        trainer = self.trainer
        if trainer.accelerator.distributed_type != "DEEPSPEED":
            return nullcontext(trainer.model)
        from trl.models import unwrap_model_for_generation

        whole: AbstractContextManager[Any] = unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
        )
        return whole


def passes_of(rows: Rows, *, budget: int, window: int | None = None) -> list[list[int]]:
    """Indices of the rows of each forward pass: rows of one prompt together, and no more tokens
    than the budget.

    Args:
        rows: the rows to measure.
        budget: tokens in one pass, padding included; a row that is longer has a pass of its own.
        window: the model's sliding window, in tokens. A longer row has a pass of its own, since
            padding would push tokens out of it. Null where there is none.
    """

    def longest_of_a_prompt_first(index: int) -> tuple[tuple[int, ...], int]:
        return rows[index].prefix, -len(rows[index].suffix)

    passes: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(rows)), key=longest_of_a_prompt_first):
        length = sum(map(len, rows[index]))
        longest = max(longest, length)
        alone = window is not None and longest > window
        if not passes or alone or longest * (len(passes[-1]) + 1) > budget:
            passes.append([])
            longest = length
        passes[-1].append(index)
    return passes


def verdict_logprobs(
    model: Any,
    rows: Rows,
    tokens: VerdictTokens,
    *,
    budget: int = BUDGET,
    share_prefix: bool = True,
    passes: int = 0,
) -> list[OfVerdicts]:
    """Full-vocabulary log-probabilities of both verdicts after each row, in the order given.

    A prompt is computed once for all rows of a pass that share it, and logits at the verdict's
    place alone. Results in float32 agree with an unbatched pass to 1e-5.

    Args:
        model: causal language model; it is in evaluation mode meanwhile, and learns nothing.
        rows: the rows to measure.
        tokens: the verdict's tokens.
        budget: largest number of tokens, padding included, in one forward pass of several rows.
        share_prefix: whether to compute a prompt once for all of its rows in a pass.
        passes: forward passes to run in any case (sharded training needs the same number
            everywhere); surplus ones repeat the first row. Only without ``share_prefix``.
    """
    torch = require("torch", "tal-rlvr[train]")
    batches = passes_of(rows, budget=budget, window=sliding_window(model))
    out: list[OfVerdicts] = [(0.0, 0.0)] * len(rows)
    device = next(model.parameters()).device

    def logits(batch: Rows) -> Any:
        prompts = {row.prefix for row in batch}
        if not share_prefix or len(prompts) == len(batch):
            batch = [VerdictRow((), (*row.prefix, *row.suffix)) for row in batch]
        output = outputs_behind(model, batch, device=device, logits_to_keep=1)
        return output.logits[:, -1].float()

    with torch.no_grad(), _evaluating(model):
        for indices in batches:
            with _verdict_logits(model, tokens, torch) as exact:
                scores = logits([rows[i] for i in indices])
            both = [tokens.a, tokens.b]
            if exact:  # in the sum, too, or a probability could be above 1
                scores[:, both] = exact[-1]
            total = scores.logsumexp(-1, keepdim=True)
            picked = scores[:, both].double() - total.double()
            pairs = picked.cpu().tolist()
            for index, (a, b) in zip(indices, pairs, strict=True):
                out[index] = (a, b)
        surplus = rows[:1] or [VerdictRow((tokens.a,), (tokens.b,))]
        for _ in range(passes - len(batches)):
            logits(surplus)
    return out


def sliding_window(model: Any) -> int | None:
    """How many tokens back a model sees; null where all."""
    window = getattr(model.config.get_text_config(), "sliding_window", None)
    if window is None:
        return None
    return int(window)


_CHANGED = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Settings of architectures that change a head's logits afterwards."""


@contextmanager
def _verdict_logits(model: Any, tokens: VerdictTokens, torch: Any) -> Iterator[list[Any]]:
    """Collect the logits of A and B of each pass, ``(rows, 2)``, as float32 products of the last
    hidden states.

    Logits in bfloat16 lie on a lattice of 1/16 to 1/8 nat, which is as wide as what criteria move.
    A hook on the head sees its weights where sharded training has gathered them. Nothing is
    collected where a head is more than a product (an adapter on it, soft caps): there the model's
    own logits count.
    """
    head = model.get_output_embeddings()
    kept = list[Any]()
    config = model.config.get_text_config()
    plain = hasattr(head, "weight") and not hasattr(head, "base_layer")
    changes = [getattr(config, name, None) for name in _CHANGED]
    if not plain or any(change not in (None, 1) for change in changes):
        yield kept
        return

    letters = [tokens.a, tokens.b]

    def keep(module: Any, given: Any) -> None:
        states = given[0][:, -1]
        with torch.autocast(device_type=states.device.type, enabled=False):
            logits = states.float() @ module.weight[letters].float().T
            bias = getattr(module, "bias", None)
            if bias is not None:
                logits = logits + bias[letters].float()
            kept.append(logits)

    handle = head.register_forward_pre_hook(keep)
    try:
        yield kept
    finally:
        handle.remove()


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode; the mode from before is restored."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
