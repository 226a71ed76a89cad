"""``python -m tal_rlvr CONFIG``: the entry for a launcher, on every process; people use ``carb
train``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from carb_data import CarbError
from tal_rlvr.curve import progress_line
from tal_rlvr.layouts import Form
from tal_rlvr.train_config import presets
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
    parser.add_argument("config", help=f"TOML file or preset ({', '.join(presets())})")
    parser.add_argument("--out", help="output folder; it replaces that of the file")
    parser.add_argument(
        "--model", help="folder or hub id of the model to train; it replaces that of the file"
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FORM:PATH",
        help="a source of pairs, in place of those of the file; may be repeated. FORM is one of "
        f"{', '.join(get_args(Form))}",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    arguments = parser.parse_args(argv)
    given = {"out": arguments.out, "model": arguments.model}
    overrides: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if arguments.data:
        forms = [entry.partition(":") for entry in arguments.data]
        sources = [{"form": form, "path": path} for form, _, path in forms]
        overrides["mix"] = {"sources": sources}
    try:
        result = train(
            arguments.config,
            resume=arguments.resume,
            overrides=overrides,
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
