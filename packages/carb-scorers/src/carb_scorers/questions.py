"""Questions: a text, or the turns of a conversation."""

from collections.abc import Sequence

from pydantic import TypeAdapter

from carb_data import Conversation

_conversation: TypeAdapter[Conversation] = TypeAdapter(Conversation)
Turns = Sequence[tuple[str, str]]
"""Role and content of each turn."""
Question = str | Conversation
"""A text, or turns of which the last is the user's."""


def conversation_of(turns: Turns) -> Conversation:
    """Turns as a conversation.

    Raises:
        ValidationError: they are none.
    """
    return _conversation.validate_python(as_messages(turns))


def as_messages(turns: Turns) -> list[dict[str, str]]:
    """Turns as chat templates take them."""
    return [{"role": role, "content": content} for role, content in turns]
