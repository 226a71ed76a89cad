"""What models are told when they write: templates in which ``$culture`` and its like are filled in."""

from __future__ import annotations

from string import Template
from typing import Annotated

from pydantic import AfterValidator

from carb_data import cultures
from carb_data.models import Frozen

__all__ = ["Instructions", "fill", "language_name"]

FIELDS = {"culture", "language", "question", "reference", "text"}


def _known_fields(text: str) -> str:
    template = Template(text)
    if not template.is_valid():
        raise ValueError("a '$' must be followed by a field's name; write '$$' for a dollar sign")
    unknown = set(template.get_identifiers()) - FIELDS
    if unknown:
        raise ValueError(f"unknown fields {sorted(unknown)}; there are {sorted(FIELDS)}")
    return text


_Template = Annotated[str, AfterValidator(_known_fields)]


class Instructions(Frozen):
    """Templates; ``$culture``, ``$language``, ``$question``, ``$reference`` and ``$text`` are filled in."""

    question: _Template = (
        "Here is a piece of reference material about $culture culture:\n\n$reference\n\n"
        "Write one question, in $language, that a person living there could ask and that this material answers. "
        "If $language is not the language spoken there, name the country or its people in the question. "
        "Do not give the answer away. Write the question only."
    )
    answer: _Template = (
        "Reference material:\n\n$reference\n\n"
        "Question: $question\n\n"
        "Answer the question in $language in one or two sentences, following the reference material only. "
        "Do not mention the material, and do not name any country or people. Write the answer only."
    )
    translate: _Template = (
        "Translate this text into $language. Keep its meaning, its names and its tone. "
        "Write the translation only.\n\n$text"
    )
    paraphrase: _Template = (
        "Say this in other words, in the same language ($language), with the same meaning and about the same length. "
        "Keep the names of countries, peoples and languages. Write the new text only.\n\n$text"
    )
    remove_name: _Template = (
        "Rewrite this text, in the same language ($language), without the names of countries, peoples, cultures and "
        "languages. Change nothing else than what grammar asks for. Write the new text only.\n\n$text"
    )
    change_concept: _Template = (
        "This text is right for $culture culture. Change its one core cultural concept (the custom, food, date, rule, "
        "word or attitude that it is about) so that it is no longer right there. Keep everything else: the language "
        "($language), the names of countries and peoples, the sentence form, the length. Write the new text only.\n\n"
        "$text"
    )


def fill(template: str, *, culture: str, language: str, question: str = "", reference: str = "", text: str = "") -> str:
    """Fill a template; what stands in the values is never read as a field.

    Args:
        template: One of ``Instructions``.
        culture: The id of a culture.
        language: A BCP 47 tag.
        question: The question, where the template has one.
        reference: The reference material, where the template has it.
        text: The text to change, where the template has one.
    """
    name = cultures[culture].name if culture in cultures else culture
    return Template(template).substitute(
        culture=name, language=language_name(language), question=question, reference=reference, text=text
    )


def language_name(tag: str) -> str:
    """An English name for a language where a registered culture has one, else the tag itself."""
    primary = tag.partition("-")[0].lower()
    for culture in cultures:
        if culture.language.partition("-")[0] == primary:
            return culture.name
    return f"the language with the BCP 47 tag '{tag}'"
