"""``python -m tal_rlvr CONFIG``: the entry for a launcher, on every process; people use ``carb
train``."""

import argparse
import sys
from collections.abc import Sequence

from carb_data import CarbError
from tal_rlvr.curve import progress_to
from tal_rlvr.training import train


def _say(line: str) -> None:
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
            on_log=progress_to(_say),
            on_note=_say,
        )
    except CarbError as error:
        _say(str(error))
        return 2
    sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
