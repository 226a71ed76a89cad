"""A whole run: evaluate, optimise, evaluate again, and say what moved."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from carb_data import CarbError
from carb_data.extras import require
from carb_data.tasks import open_task
from carb_data.waiting import wait_for
from carb_scorers import Scorer, open_scorer
from carb_scorers.bon import judge_from
from tal_rlvr.policy.alarms import Alarm, Samples, TextStats, alarms, overoptimised, text_stats, windows
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.evaluating import OnLog, TaskPart, apart, difference, divide, evaluate, mean
from tal_rlvr.policy.results import LoggedStep, PolicyResult, TaskChange, TrainedPolicy

RESULT = "policy.json"
TRAINED_ON = "trained-on.txt"
_TRAINED = "trained.json"


def train_policy(config: PolicyConfig, on_log: OnLog | None = None) -> PolicyResult:
    """Optimise a policy against a scorer; the model, samples and ``policy.json`` go into ``config.out``.

    Beside it ``trained-on.txt`` has a line for each source item that was trained on: a task that is to be new to the
    policy leaves these out (``without=`` of BLEnD's).

    An interrupted run goes on where its samples or its finished training stand; training itself starts again. It may be
    called where an event loop runs, as in a notebook.

    Raises:
        CarbError: a spec is wrong, a model is missing, ``out`` holds another run, or no prompt gives a preference
            (DPO).
        MissingExtraError: TRL is not installed.
    """
    require("trl", package="tal-rlvr", extra="train")
    report = on_log or (lambda *_: None)
    if (config.out / RESULT).exists():
        raise CarbError(f"{config.out} holds a finished run; choose another --out.")
    trained = _read(config)
    scorers = [open_scorer(config.scorer)]
    try:
        judge = None
        if config.judge is not None:
            scorers.append(open_scorer(config.judge))
            judge = judge_from(scorers[1], config.out / "judgements")
        train, held_out = divide(open_task(config.task, judge=judge), config.held_out, config.eval_limit, config.seed)
        further = [apart(open_task(spec, judge=judge), train, config.eval_limit) for spec in config.eval_tasks]
        before, grades = evaluate(config, config.policy, held_out, "before", report, scorer=scorers[0])
        firsts = [evaluate(config, config.policy, part, f"before-{i}", report) for i, part in enumerate(further, 1)]
        if trained is None:
            trained = _optimise(config, train, scorers[0], before.stats, report)
            (config.out / _TRAINED).write_text(trained.model_dump_json(indent=1) + "\n", encoding="utf-8")
        after, now = evaluate(config, trained.model, held_out, "after", report, scorer=scorers[0], start=config.policy)
        lasts = [evaluate(config, trained.model, part, f"after-{i}", report) for i, part in enumerate(further, 1)]
    finally:
        for one in scorers:
            wait_for(one.aclose)
    tasks = tuple(
        TaskChange(task=part.name, before=first, after=last, change=difference(was, is_now, part))
        for part, (first, was), (last, is_now) in zip(further, firsts, lasts, strict=True)
    )
    rewards = before.reward, after.reward
    over = [overoptimised(rewards, (before.grade, after.grade), config.limits)]
    over += [overoptimised(rewards, (t.before.grade, t.after.grade), config.limits, task=t.task) for t in tasks]
    items = tuple(dict.fromkeys(prompt.source_item for prompt in train.prompts))
    (config.out / TRAINED_ON).write_text("".join(f"{item}\n" for item in items), encoding="utf-8")
    result = PolicyResult(
        model=trained.model,
        config=config,
        train_prompts=len(train.prompts),
        train_items=items,
        pairs=trained.pairs,
        before=before,
        after=after,
        change=difference(grades, now, held_out),
        tasks=tasks,
        curve=trained.curve,
        alarms=(
            *trained.alarms,
            *alarms(before.stats, after.stats, config.limits, kl=after.kl),
            *(alarm for alarm in over if alarm is not None),
        ),
        unscored=trained.unscored,
    )
    (config.out / RESULT).write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return result


def _read(config: PolicyConfig) -> TrainedPolicy | None:
    """What an interrupted run has trained already."""
    file = config.out / _TRAINED
    try:
        found = TrainedPolicy.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise CarbError(f"{file} is not of this version; choose another --out.") from None
    if found.config != config:
        raise CarbError(f"{config.out} holds a run with other settings; choose another --out.")
    return found


def _optimise(config: PolicyConfig, train: TaskPart, scorer: Scorer, before: TextStats, report: OnLog) -> TrainedPolicy:
    from tal_rlvr.policy import dpo, grpo
    from tal_rlvr.policy.callbacks import quietly

    pairs: int | None = None
    with quietly():
        if config.method == "grpo":
            model, curve, samples, unscored = grpo.optimise(config, train, scorer, report)
        else:
            model, curve, samples, unscored, pairs = dpo.optimise(config, train, scorer, report)
    return TrainedPolicy(
        config=config,
        model=str(model),
        pairs=pairs,
        curve=tuple(curve),
        alarms=tuple(alarms_of(config, train, before, curve, samples)),
        unscored=unscored,
    )


def alarms_of(
    config: PolicyConfig, train: TaskPart, before: TextStats, curve: Sequence[LoggedStep], samples: Samples
) -> list[Alarm]:
    """The first alarm of each kind during training, over windows of its latest samples.

    Args:
        config: the configuration of the run.
        train: the prompts that the samples answer.
        before: statistics of the policy's answers before training.
        curve: the points of the training curve; they hold the divergence.
        samples: the samples of each step.
    """
    languages = {prompt.id: prompt.language for prompt in train.prompts}
    divergence = {point.step: point.kl for point in curve}
    rung: list[Alarm] = []
    for steps, keys, answers in windows(samples, config.limits.window):
        stats = text_stats(answers, keys, [languages[key] for key in keys])
        kl = mean([divergence.get(step) for step in steps])
        rung += alarms(before, stats, config.limits, step=steps[-1], kl=kl)
    return first_of_each(rung)


def first_of_each(found: Sequence[Alarm]) -> list[Alarm]:
    """The first alarm of each kind: that it goes on ringing says nothing new."""
    first: dict[str, Alarm] = {}
    for alarm in found:
        first.setdefault(alarm.kind, alarm)
    return list(first.values())
