"""The line of a run at each step, and its picture."""

from collections.abc import Callable, Mapping, Sequence

__all__ = ["progress_to"]

SHOWN = {
    "loss": "loss",
    "reward": "reward",
    "rewards/R_corr/mean": "R_corr",
    "rewards/R_appr/mean": "R_appr",
    "rewards/R_format/mean": "form",
    "verdict_accuracy": "verdicts right",
    "eval_reward": "reward on dev pairs",
    "tokens_per_second": "tokens/s",
}
"""Logged values that a line holds, and their names there."""
TOTAL = "total_steps"
"""Logged by each stage: how many steps it takes."""
LEFT = "seconds_left"
"""Logged by each stage: how long the rest takes at the mean speed so far."""


def progress_line(stage: str, step: int, values: Mapping[str, float]) -> str | None:
    """One line for a person; null where nothing of ``SHOWN`` was logged."""
    parts = [f"{name} {values[key]:.3g}" for key, name in SHOWN.items() if key in values]
    if not parts:
        return None
    total = ""
    if TOTAL in values:
        total = f" of {values[TOTAL]:.0f}"
    left = ""
    if LEFT in values:
        left = f", {values[LEFT]:.0f} s left"
    return f"{stage} step {step}{total}: {', '.join(parts)}{left}"


def progress_to(say: Callable[[str], object]) -> Callable[[str, int, Mapping[str, float]], None]:
    """A listener that says the line of each step."""

    def show(stage: str, step: int, values: Mapping[str, float]) -> None:
        if line := progress_line(stage, step, values):
            say(line)

    return show


PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 320" font-family="sans-serif"
 font-size="12"><rect width="640" height="320" fill="white"/>
<text x="40" y="20">Mean reward of each step's outputs</text>
<text x="4" y="44">{high:.2f}</text>
<text x="4" y="284">{low:.2f}</text>
<text x="540" y="308">{steps} steps</text>
<polyline fill="none" stroke="#1c4fa0" stroke-width="2" points="{points}"/>
</svg>
"""


def svg(rewards: Sequence[float]) -> str:
    """A line over steps, as a picture without fonts or scripts of its own."""
    low, high = min(rewards), max(rewards)
    steps = len(rewards)
    across = 560 / max(1, steps - 1)
    up = 240 / (high - low or 1.0)
    points = " ".join(
        f"{40 + step * across:.1f},{280 - (reward - low) * up:.1f}"
        for step, reward in enumerate(rewards)
    )
    return PICTURE.format(low=low, high=high, steps=steps, points=points)
