from __future__ import annotations

from statistics import mean, stdev

import pytest

from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.judgement import write_judgement
from tal_rlvr.preferences import Pair, both_orders

torch = pytest.importorskip("torch", reason="needs tal-rlvr[train]")
pytest.importorskip("trl", reason="needs tal-rlvr[train]")

# TRL sets the option by its old name.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"
)

PROMPTS = PromptConfig(style="compact", chat="no")
WORDS = ["rice", "bread", "tea", "coffee", "salt", "drum"]
PAIRS = [
    Pair(
        id=str(n),
        source_item=str(n),
        prompt=f"{w}?",
        chosen=w,
        rejected=w[::-1],
        culture="thai",
        language="en",
    )
    for n, w in enumerate(WORDS)
]


def outputs(tokenizer, count):
    """Judgements that differ within a group in verdict, form and length."""
    texts = [
        write_judgement([("fact", "known", 2, "A")], "A fits.", "A"),
        write_judgement(
            [("usual", "people there know it", 5, "B")], "B fits daily life there.", "B"
        ),
        "no form at all",
        write_judgement(
            [("fact", "known", 1, "A"), ("tea", "usual", 1, "both")], "Both fit, A more.", "A"
        ),
    ]
    eos = tokenizer.eos_token_id
    return [
        [*tokenizer(texts[n % 4], add_special_tokens=False)["input_ids"], eos] for n in range(count)
    ]


def make_trainer(
    folder,
    tmp_path,
    *,
    rewards=None,
    scripted=True,
    direct=False,
    peft=None,
    written=outputs,
    **settings,
):
    from datasets import Dataset
    from transformers import AutoTokenizer

    from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config, training_rows

    class Scripted(ThinkAsLocalsTrainer):
        """Generation replaced by fixed outputs, the same for one process and for several."""

        def _generate_single_turn(self, prompt_ids, *_args, **_kwargs):
            rank = self.accelerator.process_index
            rows = written(self.processing_class, 4 * len(prompt_ids))
            return [rows[rank * len(prompt_ids) + n] for n in range(len(prompt_ids))], None

    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [row for pair in PAIRS for row in both_orders(pair)]
    arguments = {
        "output_dir": str(tmp_path / "out"),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 12,
        "max_steps": 2,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 3,
        **settings,
    }
    return (Scripted if scripted else ThinkAsLocalsTrainer)(
        str(folder),
        paper_config(**arguments),
        Dataset.from_list(training_rows(rows, tokenizer, PROMPTS, direct=direct)),
        tokenizer,
        rewards=rewards,
        direct=direct,
        peft_config=peft,
    )


def paper_loss(model, reference, inputs, *, beta, epsilon):
    """Minus the paper's objective, written from its formula alone: one output at a time, no
    padding."""
    total = 0.0
    for row in range(len(inputs["prompt_ids"])):
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()]
        answer = inputs["completion_ids"][row][inputs["completion_mask"][row].bool()]
        ids = torch.cat([prompt, answer])[None]
        new, ref = (
            m(input_ids=ids)
            .logits[0, len(prompt) - 1 : -1]
            .log_softmax(-1)
            .gather(1, answer[:, None])[:, 0]
            for m in (model, reference)
        )
        old = inputs["old_per_token_logps"][row][: len(answer)]
        advantage = inputs["advantages"][row]
        ratio = (new - old).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - epsilon, 1 + epsilon) * advantage)
        kl = (
            (ref - new).exp() - (ref - new) - 1
        )  # the unbiased estimator k3 (Schulman 2020), as in GRPO
        total = total + (gain - beta * kl).mean()
    return -total / len(inputs["prompt_ids"])


@pytest.fixture
def loss_inputs(tiny_tokenizer):
    generator = torch.Generator().manual_seed(1)
    rows = outputs(tiny_tokenizer, 4)
    width = max(map(len, rows))
    eos = tiny_tokenizer.eos_token_id
    prompts = torch.randint(10, 300, (2, 7), generator=generator).repeat(
        2, 1
    )  # each is computed once
    prompt_mask = torch.ones_like(prompts)
    prompts[1::2, :3], prompt_mask[1::2, :3] = eos, 0
    return {
        "prompt_ids": prompts,
        "prompt_mask": prompt_mask,
        "completion_ids": torch.tensor([row + [eos] * (width - len(row)) for row in rows]),
        "completion_mask": torch.tensor(
            [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        ),
        "advantages": torch.tensor([1.2, -0.7, -1.1, 0.6]),
        "num_items_in_batch": torch.tensor(sum(map(len, rows))),
    }


def losses(folder, tmp_path, inputs, **settings):
    """TRL's loss and gradient, and ours, on a policy that has moved away from old policy and
    reference."""
    from transformers import AutoModelForCausalLM

    trainer = make_trainer(folder, tmp_path, **settings)
    trainer.current_gradient_accumulation_steps = 1
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        ids, mask = (
            torch.cat([inputs[f"prompt_{x}"], inputs[f"completion_{x}"]], 1)
            for x in ("ids", "mask")
        )
        keep = inputs["completion_ids"].shape[1]
        read = []  # at once: a prompt, or what stands behind it
        trainer.ref_model.register_forward_pre_hook(
            lambda *x: read.append(x[2]["input_ids"].shape), with_kwargs=True
        )
        ref, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.ref_model, ids, mask, keep, batch_size=3
        )
        assert max(width for _, width in read) < ids.shape[1]
        generator = torch.Generator().manual_seed(2)
        for parameter in trainer.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)
        now, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, keep)
        inputs["ref_per_token_logps"] = ref
        inputs["old_per_token_logps"] = now + torch.randn(now.shape, generator=generator) * 0.2
    trainer.model.train()
    theirs = trainer._compute_loss(trainer.model, inputs)
    theirs.backward()
    their_gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])
    trainer.model.zero_grad()
    ours = paper_loss(trainer.model, reference, inputs, beta=trainer.beta, epsilon=0.2)
    ours.backward()
    gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])
    return float(theirs.detach()), float(ours.detach()), their_gradient, gradient


def test_the_preset_s_loss_is_the_paper_s_objective(tiny_folder, tmp_path, loss_inputs):
    theirs, ours, their_gradient, gradient = losses(tiny_folder, tmp_path, loss_inputs)
    assert theirs == pytest.approx(ours, abs=1e-6)
    assert float((their_gradient - gradient).norm() / gradient.norm()) < 1e-5


def test_prompts_in_the_cache_change_no_output(tiny_folder, tmp_path):
    trainer = make_trainer(tiny_folder, tmp_path, scripted=False)
    trainer.generation_config.do_sample = False
    blocks = []  # a slice of last states is slow on a CPU, see ``dense_head``
    for model in (trainer.model, trainer.ref_model):
        model.lm_head.register_forward_pre_hook(
            lambda _, given: blocks.append(given[0].is_contiguous())
        )
    trainer.ref_model(input_ids=torch.ones(3, 4, dtype=torch.long), logits_to_keep=1)
    asked = [[11, 12, 13, 14], [15, 16], [11, 12, 13, 14], [15, 16]], None, {}, 2
    shared = trainer._generate_single_turn(*asked)
    trainer.args.gradient_checkpointing = True  # TRL's own way
    assert shared == trainer._generate_single_turn(*asked)
    assert all(blocks)


def rewards_by_hand(trainer, row, written, config):
    """R of each output, from the pure functions."""
    from tal_rlvr import correctness_reward, criteria_reward, format_reward, total_reward
    from tal_rlvr.judge_rewards import CriteriaCase, Reading, VerdictRow
    from tal_rlvr.judgement import Judgement
    from tal_rlvr.trl_rewards import parse_all
    from tal_rlvr.verdict_logprobs import ModelVerdicts
    from tal_rlvr.verdict_tokens import (
        encode_prompt,
        masked_reasoning_ids,
        reasoning_ids,
        verdict_tokens,
    )

    tokenizer, tokens = trainer.processing_class, verdict_tokens(trainer.processing_class)
    judgements = parse_all(tokenizer, written)

    def reading(shown, ids):
        prompt = tuple(encode_prompt(tokenizer, shown))
        text = tokenizer.decode(ids, skip_special_tokens=True)
        z = (
            masked_reasoning_ids(tokenizer, text, tokens)
            if config.mask
            else reasoning_ids(tokenizer, ids, tokens)
        )
        return Reading(VerdictRow(prompt, z), VerdictRow(prompt, tokens.marker))

    cases = [
        CriteriaCase(
            *reading(row["prompt"], ids),
            row["label"],
            isinstance(judgement, Judgement) or not config.gate,
            reading(row["swapped_prompt"], ids) if config.both_orders else None,
        )
        for ids, judgement in zip(written, judgements, strict=True)
    ]
    criteria = criteria_reward(
        cases, ModelVerdicts(trainer.model, tokens), odds=config.odds, clip=config.bound
    )
    right = correctness_reward(judgements, [row["label"]] * len(written))
    formats = format_reward(judgements)
    return total_reward(
        right,
        criteria,
        weight=config.criteria_weight,
        formats=formats,
        format_weight=config.format_weight,
    )


CORRECT = {"A": [1, -1, -1, 1], "B": [-1, 1, -1, -1]}  # R_corr of ``outputs`` by label


@pytest.mark.parametrize("form", ["ours", "paper", "floor"])
def test_advantages_are_the_group_s_and_come_from_all_rewards(tiny_folder, tmp_path, form):
    from tal_rlvr.trl_rewards import PAPER_REWARDS, RewardConfig

    floor = RewardConfig(
        correctness_weight=0, format_weight=0, floor=1.0
    )  # more than this group's spread
    config = {"paper": PAPER_REWARDS, "floor": floor}.get(form, RewardConfig(criteria_weight=0.5))
    trainer = make_trainer(tiny_folder, tmp_path, rewards=config)
    row = trainer.train_dataset[0]
    got = trainer._generate_and_score_completions([row] * 4)["advantages"].tolist()
    rewards = rewards_by_hand(trainer, row, outputs(trainer.processing_class, 4), config)
    if form == "floor":
        rewards = [r - right for r, right in zip(rewards, CORRECT[row["label"]], strict=True)]
    assert (stdev(rewards) < 1) == (form == "floor")
    wanted = [(r - mean(rewards)) / (max(stdev(rewards), config.floor) + 1e-4) for r in rewards]
    assert got == pytest.approx(wanted, abs=1e-4)


def test_under_lora_only_the_adapters_learn(tiny_folder, tmp_path):
    from peft import LoraConfig

    peft = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = make_trainer(tiny_folder, tmp_path, peft=peft)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    moved = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved
    assert all("lora_" in name for name in moved)
    assert all(p.requires_grad == ("lora_" in name) for name, p in trainer.model.named_parameters())


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def test_a_resumed_run_is_the_run_that_never_stopped(tiny_folder, tmp_path):
    settings = {"scripted": False, "save_strategy": "steps", "save_steps": 2, "max_steps": 4}
    whole = make_trainer(tiny_folder, tmp_path / "whole", **settings)
    whole.train()
    stopped = make_trainer(tiny_folder, tmp_path / "stopped", **settings)

    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step == 2

    stopped.add_callback(Stop())
    stopped.train()
    assert stopped.state.global_step == 2
    resumed = make_trainer(tiny_folder, tmp_path / "stopped", **settings)
    resumed.train(resume_from_checkpoint=True)
    assert torch.equal(weights(resumed), weights(whole))
    for name in ("loss", "reward", "rewards/R_appr/mean"):
        both = [[e[name] for e in t.state.log_history if name in e] for t in (whole, resumed)]
        assert both[0] == both[1]
