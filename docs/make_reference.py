"""The reference pages, made from the code when the site is built: commands, options of scorers,
Python names.

Usage: python docs/make_reference.py      (prints the pages)
"""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROVISIONAL = {
    "carb_data": """COLUMNS ContaminationReport Conversation Family Frozen HomeLine Identifier
        JsonObject Message OtherHeadError Problem SEED Store Text Votes as_text check_contamination
        closest content_hash copies_sentence expand_family first_defect home_line home_lines
        home_path install_line is_mirror load_facts load_families names_culture normalise
        parse_file read_file read_lines read_options read_query read_store repeated_name require
        rounded seed_folders unsaid validate write_whole""",
    "carb_scorers": """KnownModel Progress in_order known_model known_models plan_of read_journal
        read_presentations request_name told_culture using wait_for""",
    "carb_metrics": "Scored adjust centred mean_interval place_gap",
    "tal_rlvr": "MixSource format_reward load_config paper_config presets render_plain",
}
"""The names that may change in any release, by module; the other public names are stable."""
STABILITY = (
    "A **stable** name keeps its arguments and its meaning. A **provisional** name may change in "
    "any release. `CHANGELOG.md` of the package lists each change of either."
)


def commands() -> str:
    """The page of the commands: their help at 80 columns, which a page shows uncut."""
    from carb_cli.main import COMMANDS, GROUPS

    names = [*COMMANDS, *(f"{group} {name}" for group, (own, _) in GROUPS.items() for name in own)]
    codes = (
        "Exit codes: 0 on success, 1 when a check that was asked for failed, 2 on wrong use, "
        "130 when interrupted."
    )
    parts = ["# Commands", "", codes, ""]
    for name in names:
        parts += [f"## carb {name}", "", "```text", help_of(name).rstrip(), "```", ""]
    return "\n".join(parts)


def help_of(name: str) -> str:
    """The help of a command."""
    from rich.console import Console

    from carb_cli.main import application

    arguments = [*name.split(), "--help"]
    stream = StringIO()
    os.environ["COLUMNS"] = "80"  # the terminal for which examples are broken
    console = Console(file=stream, width=80, color_system=None, force_terminal=False)
    with redirect_stdout(stream):
        application(arguments)(arguments, console=console)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def python_names() -> str:
    """The page of the names at the packages' roots: the stability of each, then what the site fills
    from its docstring."""
    lines = ["# Python", "", STABILITY, ""]
    for name, provisional in PROVISIONAL.items():
        public = import_module(name).__all__
        if unknown := set(provisional.split()).difference(public):
            raise SystemExit(f"{name} has no public {', '.join(sorted(unknown))}.")
        lines += [f"## {name}", "", "| name | stability |", "|---|---|"]
        for one in public:
            word = "provisional" if one in provisional.split() else "stable"
            lines.append(f"| `{one}` | {word} |")
        lines += ["", f"::: {name}", ""]
    return "\n".join(lines)


def generated() -> dict[str, str]:
    """Each page that is made, by its path in the site."""
    return {"reference/commands.md": commands(), "reference/python.md": python_names()}


def main() -> None:
    for name, text in generated().items():
        print(f"----- {name}\n{text}")


if __name__ == "__main__":
    main()
