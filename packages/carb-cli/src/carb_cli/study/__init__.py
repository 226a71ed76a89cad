"""The validity study: does a benchmark's score predict what happens when a reward model is used?"""

from carb_cli.study.config import StudyConfig, read_study
from carb_cli.study.result import StudyResult
from carb_cli.study.run import run_study

__all__ = ["StudyConfig", "StudyResult", "read_study", "run_study"]
