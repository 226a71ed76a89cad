from __future__ import annotations

import shutil
from functools import partial
from statistics import mean, stdev

import pytest

from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.judgement import write_judgement
from tal_rlvr.preferences import Pair, both_orders
from tal_rlvr.verdict_tokens import encode_prompt

torch = pytest.importorskip("torch", reason="needs tal-rlvr[train]")
pytest.importorskip("trl", reason="needs tal-rlvr[train]")

# TRL sets the option by its old name.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func'"),
]

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


def scripted(prompts, trainer):
    """Fixed outputs in the place of sampled ones."""
    tokenizer = trainer.processing_class
    return {
        "prompt_ids": [encode_prompt(tokenizer, prompt) for prompt in prompts],
        "completion_ids": outputs(tokenizer, len(prompts)),
        "logprobs": None,
    }


def make_trainer(
    folder, tmp_path, *, rewards=None, rollout=scripted, prompts=PROMPTS, peft=None, **settings
):
    from datasets import Dataset
    from transformers import AutoTokenizer

    from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config, training_rows

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
    return ThinkAsLocalsTrainer(
        str(folder),
        paper_config(**arguments),
        Dataset.from_list(training_rows(rows, tokenizer, prompts)),
        tokenizer,
        rewards=rewards,
        peft_config=peft,
        rollout_func=rollout,
    )


def token_logprobs(model, prompt, answer):
    """One output at a time, no padding."""
    logits = model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0]


def paper_loss(model, reference, batch, advantages, *, beta=0.04, epsilon=0.2):
    """Minus the paper's objective, written from its formula alone, where the old policy is the
    reference; and how far the ratios go."""
    total, furthest = 0.0, 0.0
    for (prompt, answer), advantage in zip(batch, advantages, strict=True):
        new = token_logprobs(model, prompt, answer)
        with torch.no_grad():
            ref = token_logprobs(reference, prompt, answer)
        ratio = (new - ref).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - epsilon, 1 + epsilon) * advantage)
        kl = (
            (ref - new).exp() - (ref - new) - 1
        )  # the unbiased estimator k3 (Schulman 2020), as in GRPO
        total = total + (gain - beta * kl).mean()
        furthest = max(furthest, float((ratio - 1).detach().abs().max()))
    return -total / len(batch), furthest


def rewards_by_hand(model, trainer, row, written, config):
    """R of each output, from the pure functions."""
    from tal_rlvr import correctness_reward, criteria_reward, format_reward, total_reward
    from tal_rlvr.judge_rewards import CriteriaCase, Reading, VerdictRow
    from tal_rlvr.judgement import Judgement
    from tal_rlvr.trl_rewards import parse_all
    from tal_rlvr.verdict_logprobs import verdict_logprobs
    from tal_rlvr.verdict_tokens import reasoning_ids, verdict_tokens

    tokenizer, tokens = trainer.processing_class, verdict_tokens(trainer.processing_class)
    judgements = parse_all(tokenizer, written)

    def reading(shown, ids):
        prompt = tuple(encode_prompt(tokenizer, shown))
        z = reasoning_ids(tokenizer, ids, tokens, mask=config.mask)
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
        cases,
        partial(verdict_logprobs, model, tokens=tokens),
        odds=config.odds,
        clip=config.bound,
    )
    corrects = correctness_reward(judgements, [row["label"]] * len(written))
    right = [config.correctness_weight * one for one in corrects]
    formats = format_reward(judgements)
    return total_reward(
        right,
        criteria,
        weight=config.criteria_weight,
        formats=formats,
        format_weight=config.format_weight,
    )


FORMS = {
    "ours": {"criteria_weight": 0.5},
    "paper": {"base": "paper"},
    "floor": {"correctness_weight": 0, "format_weight": 0, "floor": 1.0},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_is_that_of_the_paper_s_objective(tiny_folder, tmp_path, form):
    """Two steps on the same outputs: of the policy that wrote them, and of one that moved away,
    where the ratios are clipped. Advantages are the group's, and come from all rewards."""
    from transformers import AutoModelForCausalLM, TrainerCallback

    from tal_rlvr.trl_rewards import RewardConfig

    config = RewardConfig(**FORMS[form])
    asked, steps = [], []

    def recorded(prompts, trainer):
        asked.append((prompts, scripted(prompts, trainer)))
        return asked[-1][1]

    class Keep(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model, **_):
            gradient = torch.cat([weight.grad.flatten() for weight in model.parameters()])
            kept = {name: weight.clone() for name, weight in model.state_dict().items()}
            steps.append((kept, gradient.clone()))

    trainer = make_trainer(
        tiny_folder,
        tmp_path,
        rewards=config,
        rollout=recorded,
        num_iterations=2,
        max_grad_norm=0,
    )
    trainer.add_callback(Keep())
    trainer.train()
    ((prompts, outs),) = asked
    batch = list(zip(outs["prompt_ids"], outs["completion_ids"], strict=True))
    model, reference = (
        AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32) for _ in range(2)
    )
    known = {row["prompt"]: row for row in trainer.train_dataset}
    advantages = []
    for start in (0, 4):
        assert len(set(prompts[start : start + 4])) == 1
        written = outs["completion_ids"][start : start + 4]
        rewards = rewards_by_hand(reference, trainer, known[prompts[start]], written, config)
        assert form != "floor" or stdev(rewards) < 1
        spread = max(stdev(rewards), config.floor) + 1e-4
        advantages += [(reward - mean(rewards)) / spread for reward in rewards]
    far = []
    for kept, gradient in steps:
        model.load_state_dict(kept)
        model.zero_grad()
        loss, furthest = paper_loss(model, reference, batch, advantages)
        loss.backward()
        wanted = torch.cat([weight.grad.flatten() for weight in model.parameters()])
        assert float((gradient - wanted).norm() / wanted.norm()) < 1e-4
        far.append(furthest)
    assert far[0] < 1e-4
    assert far[1] > 0.2


def test_the_head_gets_its_states_in_one_block(tiny_folder, tmp_path):
    """A slice of last states is slow on a CPU, see ``dense_head``."""
    trainer, blocks = make_trainer(tiny_folder, tmp_path), []
    for model in (trainer.model, trainer.ref_model):
        model.lm_head.register_forward_pre_hook(
            lambda _, given: blocks.append(given[0].is_contiguous())
        )
        model(input_ids=torch.ones(3, 4, dtype=torch.long), logits_to_keep=1)
    assert blocks == [True, True]


def test_variables_of_the_chat_template_reach_rollouts_and_criteria(tiny_folder, tmp_path):
    """With TRL's own setting, for whoever uses the trainer without a run."""
    folder = tmp_path / "switch"
    shutil.copytree(tiny_folder, folder)
    template = folder / "chat_template.jinja"
    switch = "{% if thinking %}<think>{% else %}No thoughts.{% endif %}"
    template.write_text(template.read_text() + switch)
    trainer = make_trainer(
        folder,
        tmp_path,
        rollout=None,
        prompts=PromptConfig(style="compact", chat="yes"),
        chat_template_kwargs={"thinking": True},
        max_steps=1,
    )
    tokenizer, written = trainer.processing_class, []
    trainer.model.register_forward_pre_hook(
        lambda _, given, named: written.append(named.get("input_ids")), with_kwargs=True
    )
    function, measured = trainer.criteria_function, []
    provider = function.provider

    def read(rows):
        measured.extend(row.prefix for row in rows)
        return provider(rows)

    function.provider = read
    trainer.train()
    rollouts = {tokenizer.decode(ids, skip_special_tokens=True).rstrip() for ids in written[0]}
    assert all(text.endswith("<think>") for text in rollouts)
    assert rollouts <= {
        tokenizer.decode(ids, skip_special_tokens=True).rstrip() for ids in measured
    }
    assert all(tokenizer.decode(ids).endswith("<think>") for ids in measured)


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
    settings = {"rollout": None, "save_strategy": "steps", "save_steps": 2, "max_steps": 4}
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
