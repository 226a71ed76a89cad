"""Entry point: which commands there are, and what happens when one fails.

A command's module is imported only when the command runs, so that ``carb --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App

USAGE, FAILED, INTERRUPTED = 2, 1, 130

app = App(
    name="carb",
    help="Does a reward model understand cultures, or only their surface?",
    version=lambda: _version(),
    result_action="return_value",
    exit_on_error=False,
    print_error=True,
)
data = App(name="data", help="List, inspect, check, build and split data sets.")
data.command("carb_cli.commands.data:list_", name="list", help="List the data sets and sources at hand.")
data.command("carb_cli.commands.data:info", name="info", help="Describe a data set.")
data.command("carb_cli.commands.data:validate", name="validate", help="Check a data set; every defect is reported.")
data.command("carb_cli.commands.data:build", name="build", help="Build a data set from a public source.")
data.command("carb_cli.commands.data:split", name="split", help="Divide a data set by source item.")
app.command(data)
app.command("carb_cli.commands.run:run", name="run", help="Score a data set with reward models.")
app.command("carb_cli.commands.report:report", name="report", help="Show what runs found, with intervals.")


def _version() -> str:
    from importlib.metadata import version

    return version("carb-cli")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 on success, 1 when a check that was asked for failed, 2 on wrong use, 130 when interrupted.
    """
    from cyclopts import CycloptsError

    try:
        result = app(list(sys.argv[1:] if argv is None else argv))
    except CycloptsError:
        return USAGE  # cyclopts has printed what is wrong
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from carb_data import CarbError

        if not isinstance(error, CarbError):
            raise
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return USAGE
    return result if isinstance(result, int) else 0
