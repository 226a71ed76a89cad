"""The ``carb`` command: evaluate reward models on cultural data and report with uncertainty."""

import sys

try:
    from carb_cli.main import main
except KeyboardInterrupt:  # Ctrl-C before the command line can catch it
    sys.stderr.write("\nInterrupted.\n")
    raise SystemExit(130) from None

__all__ = ["main"]
