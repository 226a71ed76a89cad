"""Downstream tasks: does a reward model's score predict what happens when it is used?"""

from carb_data.tasks.open_task import open_task
from carb_data.tasks.task import Task, TaskPrompt, evenly

__all__ = ["Task", "TaskPrompt", "evenly", "open_task"]
