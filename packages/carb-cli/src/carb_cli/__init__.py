"""The ``carb`` command: evaluate reward models on cultural data and report with uncertainty."""

from carb_cli.main import main

__all__ = ["main"]
