"""The one place that opens and queries language models: transformers, vLLM, or any
OpenAI-compatible server.

``protocol`` is their common interface. Heavy libraries are imported when a model is opened.
"""

from carb_scorers.models.protocol import (
    CannotError,
    Choices,
    Continuation,
    Failure,
    Generation,
    LanguageModel,
    Prompt,
    Writing,
    message,
)

__all__ = [
    "CannotError",
    "Choices",
    "Continuation",
    "Failure",
    "Generation",
    "LanguageModel",
    "Prompt",
    "Writing",
    "message",
]
