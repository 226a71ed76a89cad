"""Prompts as data: Jinja texts, filled in one pass."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from carb_data import CarbError

__all__ = ["fill"]

TEMPLATE_FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Errors of Python that a template's own code may raise, besides Jinja's."""


def fill(text: str, fields: Mapping[str, Any], where: str) -> str:
    """Fill a template. Fields are inserted as they are and never read as template code.

    Args:
        text: the template, written in Jinja.
        fields: the values that the template may use, by name.
        where: the name of the template in errors.

    Raises:
        CarbError: the template is broken, or it uses a field that does not exist.
    """
    from jinja2 import TemplateError

    try:
        return str(_compiled(text).render(**fields))
    except (TemplateError, *TEMPLATE_FAULTS) as error:
        raise CarbError(
            f"{where} cannot be filled: {error}. It may use {', '.join(sorted(fields))}."
        ) from None


def undefined(reason: str) -> Any:
    """A field without a value: a template may ask whether it ``is defined``, and not print it."""
    from jinja2 import StrictUndefined

    return StrictUndefined(reason)


def checked_template(text: str) -> str:
    """A text that is a template.

    Raises:
        ValueError: it is not; the message names the line.
    """
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(text)
    except TemplateSyntaxError as error:
        raise ValueError(f"not a Jinja template: {error.message} (line {error.lineno})") from None
    return text


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=False, autoescape=False
    )


@cache
def _compiled(text: str) -> Any:
    return _environment().from_string(text)
