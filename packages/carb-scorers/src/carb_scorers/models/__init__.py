"""The one place where language models are opened and asked: transformers, vLLM, or any
OpenAI-compatible server.

``protocol`` says what they have in common. Heavy libraries are imported when a model is opened.
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
