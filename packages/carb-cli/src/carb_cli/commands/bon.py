"""``carb bon``: a policy samples, scorers pick, and a task grades the picks."""

import json as json_module
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import anyio

from carb_cli.display import interval, percent, say, table
from carb_cli.json_output import print_json
from carb_cli.labels import labels
from carb_cli.options import Json, Names, OutFolder, refuse
from carb_cli.progress import Report, progress
from carb_cli.report.report_json import mark_of
from carb_cli.scoring import show_state
from carb_data import write_whole
from carb_data.tasks import Task, open_task
from carb_metrics import mean_interval
from carb_scorers import ScorerSpec, using
from carb_scorers.bon_picks import Grades, Samples, Scores, bon_curve, grade, sample, score_samples


def bon(
    *,
    policy: str,
    out: Annotated[Path, OutFolder],
    scorer: Names = (),
    task: str,
    n: int = 16,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Let scorers pick among N samples of a policy, and grade the picks. All scorers see the same
    samples.

    For example:

        carb bon --policy hf:MODEL --task blend:PATH?limit=80 --scorer baseline:length --out runs/b

    Parameters
    ----------
    policy
        The policy that answers: hf:MODEL, vllm:MODEL, openai:MODEL?url=..., or
        file:RESPONSES.jsonl.
    out
        Folder for samples.jsonl, bon.json and the scores; the same command resumes there, and
        asks again for samples that failed.
    scorer
        [NAME=]KIND:TARGET?key=value&...; may be repeated. Without a scorer the samples are only
        drawn and graded.
    task
        The task, with its questions and grading: blend:PATH, or choice:FILE of multiple choice
        (INCLUDE). With omgeval:PATH, and with prompts:FILE.jsonl (id, prompt,
        culture, language), nothing is graded.
    n
        Number of samples for each prompt.
    seed
        Seed of the order in which answers are presented.
    """
    refuse(seed and not scorer, "--seed", "without --scorer")
    asked = open_task(task)
    path = out / "samples.jsonl"
    with progress() as report:

        def on_samples(done: int, total: int) -> None:
            report("policy", done, total, "samples")

        samples = anyio.run(partial(sample, policy, asked, n, path, on_samples=on_samples))
        grades = grade(samples, asked)
        scored = partial(_scored, samples=samples, task=asked, out=out, seed=seed, report=report)
        scores = [anyio.run(scored, spec) for spec in dict.fromkeys(scorer)]
    result = _result(policy, samples, asked, scores, grades)
    result |= {"out": str(out), "n": n}
    text = json_module.dumps(result, ensure_ascii=False, indent=1)
    write_whole(out / "bon.json", f"{text}\n")
    if json:
        print_json(result)
    else:
        _show(result)


async def _scored(
    spec: str, *, samples: Samples, task: Task, out: Path, seed: int, report: Report
) -> tuple[ScorerSpec, Scores]:
    """The spec of a scorer and its scores of the samples."""
    async with using(spec) as scorer:
        folder = out / "scores"
        shown = partial(show_state, report)
        scores = await score_samples(samples, task, scorer, folder, seed=seed, on_progress=shown)
        return scorer.spec, scores


def _result(
    policy: str,
    samples: Samples,
    task: Task,
    scored: Sequence[tuple[ScorerSpec, Scores]],
    grades: Grades,
) -> dict[str, Any]:
    """The content of ``bon.json``; qualities are null where nothing is graded."""
    means = []
    best = []
    failed = 0
    for key, row in samples.items():
        errors = sum(sample.error is not None for sample in row)
        failed += errors
        graded = [grade for grade in grades[key] if grade is not None]
        if not errors and len(graded) == len(grades[key]):
            means.append(fmean(graded))
            best.append(max(graded))
    scorers = []
    for spec, scores in scored:
        picked = _picked(samples, task, scores, grades)
        scorers.append({"scorer": spec.name, "mark": mark_of(spec), **picked})
    return {
        "policy": policy,
        "task": task.name,
        "prompts": len(task.prompts),
        "failed_samples": failed,
        "random": fmean(means) if means else None,
        "best": fmean(best) if best else None,
        "scorers": scorers,
    }


def _picked(samples: Samples, task: Task, scores: Scores, grades: Grades) -> dict[str, Any]:
    """Best-of-N of one scorer: the grade of its picks from all samples, and how much better the
    best samples are."""
    result = bon_curve(samples, scores, grades)
    items = [prompt.source_item for prompt in task.prompts if prompt.id in result.picked]
    values = list(result.picked.values())
    bounded = all(0 <= value <= 1 for value in values)
    mean = mean_interval(values, items, bounded=bounded)
    regret = None
    if result.curve:
        regret = result.curve[-1].regret
    return {
        **result.model_dump(exclude={"picked"}),
        "quality": mean.estimate,
        "low": mean.low,
        "high": mean.high,
        "regret": regret,
        "prompts": len(values),
    }


def _show(result: Mapping[str, Any]) -> None:
    graded = [one for one in result["scorers"] if one["curve"]]
    if graded:
        _show_curves(result["task"], graded)
    elif result["random"] is not None:
        say(
            f"A random sample is worth {percent(result['random'])}%, the best of "
            f"{result['n']} {percent(result['best'])}%."
        )
    counts = [one[key] for one in result["scorers"] for key in ("errors", "short", "ungraded")]
    lost = sum(counts)
    if lost and graded:
        say(
            f"{lost} times a prompt does not count (failed samples, scores or grades); see "
            "bon.json."
        )
    say(f"Written to {result['out']}: bon.json, the samples and their scores")


def _show_curves(task: str, graded: Sequence[Mapping[str, Any]]) -> None:
    """Print the quality of the picks of each scorer, by number of samples."""
    points = graded[0]["curve"]
    sizes = [f"n={point['n']}" for point in points]
    columns = ["scorer", *sizes, "95%", "regret", "prompts"]
    short = labels(one["scorer"] for one in graded)
    rows = []
    for one in graded:
        picked = [percent(point["picked"]) for point in one["curve"]]
        limits = interval(one["low"], one["high"])
        label = short[one["scorer"]]
        if one["mark"]:
            label += f" ({one['mark']})"
        rows.append((label, *picked, limits, percent(one["regret"]), one["prompts"]))
    best = [percent(point["best"]) for point in points]
    rows.append(("best available", *best, "", "", ""))
    title = f"Quality of the pick, in percent: {task}"
    table(title, columns, rows, right=columns[1:])
