"""Entry point: the commands, and how a failure ends.

A command's module is imported only when the command runs, so that ``carb --help`` answers at once.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported within main, where Ctrl-C is caught
    from cyclopts import App

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))
"""Name, place and one line for each command; commands in groups, with a line for each group; what
the extras are for."""
COMMANDS = TABLES["commands"]
GROUPS = TABLES["groups"]
LOADING = TABLES["loading"]
"""Commands that load data, and which of the options for it they take."""
EVERYWHERE = (
    "Every command takes --culture-file FILE (defines further cultures; may be repeated) "
    "and --quiet or -q (shows no progress). Commands that load data take --culture, --domain "
    "and --language, for rows without one. They take --skip-bad N or N%, which leaves out so many "
    "bad rows of a file, and lists them."
)
"""Said below the help of every command."""


def application(argv: Sequence[str] = ()) -> App:
    """The command line.

    Args:
        argv: the arguments it will parse. Where they ask for the help of a command, that is the
            docstring of its function. The other commands have one line: their modules are not
            imported.
    """
    from cyclopts import App

    app = App(
        name="carb",
        help="Does a reward model understand cultures, or only their surface?\n\n"
        "carb --install-completion completes commands in your shell.",
        help_format="plaintext",
        help_epilogue=EVERYWHERE,
        version=_version,
        result_action="return_value",
        exit_on_error=False,
        print_error=True,
        suppress_keyboard_interrupt=False,
    )
    if (
        "--install-completion" in argv
    ):  # importing what finds the shell would slow down every other command
        app.register_install_completion_command()
    parents = [(app, COMMANDS)]
    for name, (commands, line) in GROUPS.items():
        group = App(name=name, help=line)
        app.command(group)
        parents.append((group, commands))
    for parent, commands in parents:
        for name, (path, line) in commands.items():
            asked = name in argv and {"--help", "-h"} & {*argv}
            command = _described(path) if asked else path
            parent.command(command, name=name, help=None if asked else line)
    return app


def _described(path: str) -> Callable[..., Any]:
    """A command with its docstring as a terminal shows it. Examples can be pasted, each paragraph
    is one line, which the terminal breaks, and lists stay lists.
    """
    module, _, name = path.partition(":")
    function = getattr(import_module(module), name)
    text, heading, options = (inspect.getdoc(function) or "").partition("\n\nParameters\n---")
    shown = "\n\n".join(_shown(part.splitlines()) for part in text.split("\n\n"))
    joined = re.sub(
        r"(?<=\n {4})\S.*(?:\n {4}\S.*)+", lambda lines: lines[0].replace("\n    ", " "), options
    )

    @wraps(function)
    def command(*given: Any, **options: Any) -> Any:
        return function(*given, **options)

    # cyclopts reads the help of a command here
    command.__doc__ = shown + heading + joined
    return command


def _shown(lines: list[str]) -> str:
    if any(line.startswith((" ", "* ", "- ")) for line in lines):
        return "\n".join(
            _continued(line) if line.startswith("    carb ") else line for line in lines
        )
    return " ".join(lines)


def _continued(example: str) -> str:
    """A command in lines that fit the terminal; each but the last ends with a backslash."""
    import shutil
    import textwrap

    wrap = textwrap.TextWrapper(
        width=shutil.get_terminal_size().columns - len(" \\"),
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(wrap.wrap(example.strip()))


@dataclass
class Invocation:
    """The command that is being run."""

    arguments: tuple[str, ...] = ()
    quiet: bool = False
    """Whether progress is not shown."""
    culture_files: list[str] = field(default_factory=list)
    """Files that define further cultures."""
    filling: dict[str, str] = field(default_factory=dict)
    """Culture, domain and language of the rows that have none."""
    skip_bad: float = 0
    """How many rows of a file may be left out, or which share below 1."""

    def loading(self) -> list[str]:
        """The options about the rows of a table, as they are written on a command line."""
        given = []
        for name, value in self.filling.items():
            given += [f"--{name}", value]
        if self.skip_bad:
            given += ["--skip-bad", f"{self.skip_bad:g}"]
        return given


invoked = Invocation()


def command_line() -> tuple[str, ...]:
    """The command that is being run, for records and messages."""
    return ("carb", *invoked.arguments)


def what_runs(command: Invocation) -> str | None:
    """The summary of a command; null for ``--quiet``, ``--help`` and an unknown one."""
    if command.quiet or {"--help", "-h"} & {*command.arguments}:
        return None
    first, second = _words(command.arguments)
    if first in COMMANDS:
        return f"carb {first}: {COMMANDS[first][1]}"
    group = GROUPS.get(first)
    if group and second in group[0]:
        return f"carb {first} {second}: {group[0][second][1]}"
    return None


def _words(arguments: Iterable[str]) -> tuple[str, str]:
    """The words that may name a command and a command of a group; empty where they lack."""
    words = [one for one in arguments if not one.startswith("-")]
    first, second, *_ = [*words, "", ""]
    return first, second


def say_what_runs() -> None:
    """Print the command's summary on stderr, unless it has printed something."""
    try:
        from carb_cli import display
    except ImportError:  # Ctrl-C ended its import in the thread of the command
        return
    summary = what_runs(invoked)
    if summary and not display.printed():
        display.note(summary)


def _version() -> str:
    from importlib.metadata import version

    return version("carb-cli")


def _without_those_of_every_command(arguments: Sequence[str]) -> list[str]:
    """The arguments without the options that every command takes, which are noted in
    ``invoked``."""
    "".join(arguments).encode()  # fails where the locale cannot read an argument
    vars(invoked).update(vars(Invocation(tuple(arguments))))
    first, second = _words(arguments)
    loading = LOADING.get(first) or LOADING.get(f"{first} {second}", ())
    noted = {"--culture-file", *(f"--{option}" for option in loading)}
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        name, equals, value = argument.partition("=")
        if argument == "--":
            rest += [argument, *waiting]
        elif name in noted:
            _note(name, value if equals else next(waiting, ""))
        elif argument in ("--quiet", "-q"):
            invoked.quiet = True
        else:
            rest.append(argument)
    return rest


def _note(option: str, value: str) -> None:
    """Keep the value of an option in ``invoked``."""
    if option == "--culture-file":
        invoked.culture_files.append(value)
    elif option == "--skip-bad":
        invoked.skip_bad = _share(value)
    else:
        invoked.filling[option[2:]] = value


def _share(text: str) -> float:
    """A number of rows, or a share of them below 1: ``12``, ``0.05`` or ``5%``."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if text.endswith("%"):
        number = min(number / 100, 0.999999)
    if number < 0 or not (number.is_integer() or number <= 1):
        from carb_data import CarbError

        raise CarbError(f"--skip-bad takes a number of rows, or a share as 5%, not '{text}'.")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the words after ``carb``; those of the process if left out.

    Returns:
        0 on success, 1 when a requested check failed, 2 on wrong use, 130 when
        interrupted.
    """
    _escape_what_cannot_be_shown()
    try:
        from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

        rest = _without_those_of_every_command(sys.argv[1:] if argv is None else argv)
        if invoked.culture_files:
            from carb_data import cultures

            cultures.add(*invoked.culture_files)
        result = application(rest)(rest)
        sys.stdout.flush()  # or a full disk behind it would show only when Python ends
        return result if isinstance(result, int) else OK
    except KeyboardInterrupt:  # first: it may come before the other names are imported
        return interrupted()
    except (
        CycloptsError
    ) as error:  # which says what is wrong, and of values without a name not what to do
        if isinstance(error, MissingArgumentError | UnusedCliTokensError):
            sys.stderr.write(
                "Give the option's name and its value, such as --data FILE; --help lists "
                "the options.\n"
            )
        return USAGE
    except (BrokenPipeError, SystemExit) as error:  # the reader (head, less) has seen enough
        if not isinstance(error.__context__ or error, BrokenPipeError):  # rich leaves a help so
            raise
        _drop_the_rest()
        return OK
    except Exception as error:
        message = _mistake(error)
        if message is None:
            raise
        sys.stderr.write(f"error: {message}\n")
        if getattr(error, "errno", None) == errno.ENOSPC:
            _drop_the_rest()
        return USAGE


def interrupted() -> int:
    """Print that Ctrl-C ended the command; its exit code."""
    sys.stderr.write("\nInterrupted.\n")
    return INTERRUPTED


def _escape_what_cannot_be_shown() -> None:
    """A terminal that cannot show a script, or a closed one, is no reason to fail."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not _writable(stream):  # open until the process ends, as the stream that it replaces
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _writable(stream: Any) -> bool:
    try:
        os.write(stream.fileno(), b"")
    except AttributeError:  # none
        return False
    except OSError as error:  # of a 2 that is closed bash leaves the script that it reads
        return error.errno != errno.EBADF
    return True


def _drop_the_rest() -> None:
    """Let Python not try again, when it ends, to print what cannot be printed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _mistake(error: Exception) -> str | None:
    """The message about a mistake that the user can correct; null for any other error."""
    from carb_cli.display import safe
    from carb_data import CarbError

    if isinstance(error, CarbError):
        return safe(str(error))
    if isinstance(error, UnicodeEncodeError):
        return (
            f"This locale cannot read the command's text ({error}). Set PYTHONUTF8=1 or "
            "LC_ALL=C.UTF-8, and run the same command again."
        )
    if isinstance(error, OSError) and (error.filename is not None or error.errno == errno.ENOSPC):
        what = f"{error.filename or 'The output'}: {error.strerror}"
        return safe(f"{what}. Check the path, its permissions and the space that is left.")
    return None
