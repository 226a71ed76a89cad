"""CPU time of starting ``carb``, beside that of starting Python alone; the least of several starts.

Usage: python benchmarks/bench_cli.py
"""

import resource
import subprocess
import sys

STARTS = 10
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "carb --help": ["-m", "carb_cli", "--help"],
    "carb --version": ["-m", "carb_cli", "--version"],
    "carb run --help": ["-m", "carb_cli", "run", "--help"],
    "carb data list": ["-m", "carb_cli", "data", "list"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    python = None
    for name, arguments in COMMANDS.items():
        least = min(cpu_seconds(arguments) for _ in range(STARTS))
        python = python or least
        print(f"{name:16} {least:.3f} s of CPU time, {least / python:.1f} x python")


if __name__ == "__main__":
    main()
