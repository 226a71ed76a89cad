"""Downstream tasks: does a reward model's score predict what happens when it is used?"""

from carb_data.tasks.task import AnswerPair, Judge, Task, TaskPrompt, evenly, open_task

__all__ = ["AnswerPair", "Judge", "Task", "TaskPrompt", "evenly", "open_task"]
