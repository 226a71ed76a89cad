"""``carb train-policy``: optimise a policy against a scorer, and see whether it gets better or only louder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.figures import charts, theme
from carb_cli.options import CultureFile, Json, Quiet, add_cultures
from carb_cli.output import Output
from carb_cli.progress import progress
from carb_data.validation import validate
from tal_rlvr.policy import Evaluation, LoggedStep, PolicyConfig, PolicyResult, read_limits
from tal_rlvr.policy import train_policy as train


class TrainPolicyOutput(Output, PolicyResult):
    """Output of ``carb train-policy --json``."""

    schema_: Literal["carb.train-policy/1"] = Field(default="carb.train-policy/1", alias="schema")


def train_policy(
    *,
    policy: str,
    scorer: str,
    task: str,
    out: Path,
    method: Literal["grpo", "dpo"] = "grpo",
    judge: str | None = None,
    eval_tasks: Annotated[
        tuple[str, ...], Parameter(name="--eval-task", negative=(), show_default=False, consume_multiple=True)
    ] = (),
    steps: int = 100,
    learning_rate: float = 1e-6,
    beta: float = 0.04,
    generations: int = 8,
    prompts_per_step: int = 2,
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    shots: bool = True,
    held_out: float = 0.3,
    eval_samples: int = 4,
    eval_limit: int | None = 64,
    lora_rank: int = 0,
    seed: int = 0,
    alarm_limits: Annotated[
        tuple[str, ...], Parameter(name="--alarm-limit", negative=(), show_default=False, consume_multiple=True)
    ] = (),
    fail_on_alarm: Annotated[bool, Parameter(negative=())] = False,
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> int | None:
    """Optimise a policy against a scorer, and show grades, rewards and statistics of its answers before and after.

    An interrupted run keeps the samples that it has drawn, and the policy if that is trained.

    For example:

        carb train-policy --policy MODEL --scorer classifier:REWARD --task blend:PATH --steps 50 --out runs/grpo

    Parameters
    ----------
    policy
        Folder or hub id of a causal language model.
    scorer
        The scorer whose score is the reward: KIND:TARGET?key=value&...
    task
        The task: the policy is trained on some of its prompts, and graded on the others before and after.
    out
        Folder for the model, samples, policy.json and curves.
    method
        grpo, or dpo on the policy's own samples as the scorer ranks them.
    judge
        The scorer that compares answers, for tasks that need one.
    eval_tasks
        A further task on which the policy is graded before and after, without the items that it is trained on; may be
        repeated.
    steps
        Of the optimiser.
    learning_rate
        Of the optimiser.
    beta
        Weight of the KL penalty (grpo), or scale of the implicit reward (dpo; 0.1 is usual).
    generations
        Number of samples of each prompt.
    prompts_per_step
        Number of prompts (grpo) or pairs (dpo) in a step.
    max_new_tokens
        Length of the longest answer, in tokens.
    temperature
        Temperature of sampling.
    shots
        Show the task's examples; base models need them.
    held_out
        Share of the source items that are kept for the evaluation and never trained on.
    eval_samples
        Number of samples of each prompt in the evaluation.
    eval_limit
        Largest number of held-out prompts in the evaluation, and of prompts of each further task.
    lora_rank
        Train adapters of this rank; 0 trains all weights.
    seed
        Seed of all random choices.
    alarm_limits
        How far a statistic of the answers may move before there is an alarm, as name=number; may be repeated:
        length=1.5 (factor), language=0.1, repetition=0.1, same=0.4 and empty=0.1 (shares), kl=10 (nats per answer),
        grade=0.02 (of a task, while the reward rises), and over how many answers in training, window=64.
    fail_on_alarm
        Exit with 1 where there was an alarm.
    """
    add_cultures(culture_file)
    limits = read_limits(alarm_limits)
    values = {name: value for name, value in locals().items() if name in PolicyConfig.model_fields}
    config = validate(PolicyConfig, values, "These options of `carb train-policy` are not right", prefix="--")
    with progress(quiet) as report:
        result = train(config, report)
    _draw(result, out)
    if json:
        TrainPolicyOutput(**result.model_dump()).print()
    else:
        _show(result)
    return 1 if fail_on_alarm and result.alarms else None


def _draw(result: PolicyResult, out: Path) -> None:
    """A figure for each measure of the curve: ``reward.svg``, ``kl.svg``, ``length.svg``, …"""
    for name, title in _CURVES.items():
        rows = [
            {"name": title, "x": point.step, "y": value}
            for point in result.curve
            if (value := _of(point, name)) is not None
        ]
        if rows:
            theme.save_as(charts.lines(rows, x_title="step", y_title=title), out / f"{name}.svg")


_CURVES = {
    "reward": "reward",
    "kl": "KL, nats per answer",
    "length": "length, characters",
    "in_language": "in the prompt's language",
    "repetition": "repeated word triples",
}
"""A measure of the curve to its title."""
_SHARES = ("in_language", "repetition")
_POINTS = 8


def _of(point: LoggedStep, name: str) -> float | None:
    value = getattr(point if name in LoggedStep.model_fields else point.stats, name, None)
    return None if value is None else float(value)


def _show(result: PolicyResult) -> None:
    rows = [
        (name, *(_cell(value, share) for value in pair))
        for name, share, pair in (
            ("grade of the task, %", True, _both(result, "grade")),
            *((f"grade of {t.task}, %", True, (t.before.grade, t.after.grade)) for t in result.tasks),
            ("reward", False, _both(result, "reward")),
            ("KL, nats per answer", False, _both(result, "kl")),
            ("length, characters", False, _stats(result, "length")),
            ("in the prompt's language, %", True, _stats(result, "in_language")),
            ("repeated word triples, %", True, _stats(result, "repetition")),
            ("same text twice, %", True, _stats(result, "same")),
        )
    ]
    title = f"{result.before.prompts} held-out prompts, {result.config.method}, {result.config.steps} steps"
    display.table(title, ["", "before", "after"], rows, right=["before", "after"])
    for name, change in (("the task", result.change), *((t.task, t.change) for t in result.tasks)):
        limits = display.interval(change.low, change.high)
        display.say(
            f"Change of the grade of {name}: {percent(change.value)} points{f' [{limits}]' if limits else ''}, "
            f"over {change.prompts} prompts."
        )
    _show_curve(result.curve)
    for alarm in result.alarms:
        where = "after training" if alarm.step is None else f"step {alarm.step}"
        display.say(f"Alarm ({alarm.kind}, {where}): {alarm.message}.")
    if not result.alarms:
        display.say("No alarm: length, language, repetition and KL stayed within their limits.")
    display.say(f"The policy: {result.model}")


def _show_curve(curve: Sequence[LoggedStep]) -> None:
    """At most eight points of the curve, spread evenly, the last among them."""
    known = [point for point in curve if point.reward is not None]
    last = len(known) - 1
    count = min(_POINTS, len(known))
    kept = [known[round(i * last / max(count - 1, 1))] for i in range(count)]
    rows = [(point.step, *(_cell(_of(point, name), name in _SHARES) for name in _CURVES)) for point in kept]
    titles = [f"{title}, %" if name in _SHARES else title for name, title in _CURVES.items()]
    if rows:
        display.table("In training", ["step", *titles], rows, right=["step", *titles])


def _both(result: PolicyResult, name: str) -> tuple[float | None, float | None]:
    return getattr(result.before, name), getattr(result.after, name)


def _stats(result: PolicyResult, name: str) -> tuple[float | None, float | None]:
    evaluations: tuple[Evaluation, Evaluation] = (result.before, result.after)
    before, after = (getattr(evaluation.stats, name) for evaluation in evaluations)
    return before, after


def _cell(value: float | None, share: bool) -> str:
    return percent(value) if share else "–" if value is None else f"{value:.3g}"
