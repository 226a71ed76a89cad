"""``python -m tal_rlvr CONFIG``: the entry for a launcher, on every process; people use ``carb
train``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from carb_data import CarbError
from tal_rlvr.curve import progress_line
from tal_rlvr.training import train


def _show(stage: str, step: int, values: Mapping[str, float]) -> None:
    line = progress_line(stage, step, values)
    if line is not None:
        sys.stderr.write(f"{line}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Train; print the result as JSON. Returns 0, or 2 after a user's mistake, which is printed
    without a traceback."""
    parser = argparse.ArgumentParser(
        prog="python -m tal_rlvr", description="Train a Think-as-Locals judge."
    )
    parser.add_argument("config", help="TOML file, which has 'out' and the sources of [mix]")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    arguments = parser.parse_args(argv)
    try:
        result = train(
            arguments.config,
            resume=arguments.resume,
            on_log=_show,
            on_note=lambda note: sys.stderr.write(f"{note}\n"),
        )
    except CarbError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
