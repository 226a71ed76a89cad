"""The line of a run at each step, and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["progress_line"]

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
WIDTH, HEIGHT, MARGIN = 640, 320, 40


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


def svg(values: Sequence[float], title: str) -> str:
    """A line over steps, as a picture without fonts or scripts of its own."""
    low = min(values)
    high = max(values)
    height = HEIGHT - 2 * MARGIN
    width = WIDTH - 2 * MARGIN
    spread = (high - low) or 1.0
    points = " ".join(
        f"{MARGIN + width * index / max(1, len(values) - 1):.1f},"
        f"{HEIGHT - MARGIN - height * (value - low) / spread:.1f}"
        for index, value in enumerate(values)
    )
    bottom = HEIGHT - MARGIN
    text = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
        f'<text x="{MARGIN}" y="20" {text}>{title}</text>\n'
        f'<text x="4" y="{MARGIN + 4}" {text}>{high:.2f}</text>\n'
        f'<text x="4" y="{bottom + 4}" {text}>{low:.2f}</text>\n'
        f'<text x="{WIDTH - MARGIN - 60}" y="{HEIGHT - 12}" {text}>{len(values)} steps</text>\n'
        f'<polyline fill="none" stroke="#1c4fa0" stroke-width="2" points="{points}"/>\n</svg>\n'
    )
