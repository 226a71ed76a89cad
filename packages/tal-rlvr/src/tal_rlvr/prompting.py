"""Which prompt a judge is trained with, and must be used with afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from carb_data.models import Frozen
from tal_rlvr.prompts import prompt_folder


class PromptConfig(Frozen):
    """The choice of prompt; kept beside a trained model as ``think.json``."""

    language: str = "en"
    """Language of the instructions: a BCP 47 tag, or ``item`` for each item's own."""
    style: str = "full"
    """``full``: states the form, for any model. ``compact``: short, for a model warmed up on the form (English).
    Otherwise a folder with prompts of your own."""
    chat: Literal["auto", "yes", "no"] = "auto"
    """Use the tokenizer's chat template: ``auto`` where there is one; ``no`` gives plain text, as for base models."""

    def folder(self) -> Path:
        """The folder of the prompt files."""
        if self.style == "full":
            return prompt_folder()
        return prompt_folder() / "compact" if self.style == "compact" else Path(self.style)

    def is_chat(self, has_template: bool) -> bool:
        """Whether the chat template is used."""
        return has_template if self.chat == "auto" else self.chat == "yes"
