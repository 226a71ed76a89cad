"""Instructions for models that write."""

from carb_data import Perturbation, cultures, same_language


def for_question(reference: str, *, culture: str, language: str) -> str:
    """The instruction to write a question that a reference text answers; ``language`` is a BCP 47
    tag."""
    spoken = _language(language)
    return (
        f"Here is a piece of reference material about {cultures.name(culture)} "
        f"culture:\n\n{reference}\n\n"
        f"Write one question, in {spoken}, that a person living there could ask and that "
        "this material answers. "
        f"If {spoken} is not the language spoken there, name the country or its people in "
        "the question. "
        "Do not give the answer away. Write the question only."
    )


def for_answer(reference: str, question: str, *, language: str) -> str:
    """The instruction to answer a question from a reference text alone."""
    return (
        f"Reference material:\n\n{reference}\n\n"
        f"Question: {question}\n\n"
        f"Answer the question in {_language(language)} in one or two sentences, following "
        "the reference material only. "
        "Do not mention the material, and do not name any country or people. Write the answer only."
    )


def for_version(
    kind: Perturbation,
    text: str,
    *,
    culture: str,
    language: str,
) -> str:
    """The instruction to write a perturbed version of a right answer."""
    spoken = _language(language)
    told = {
        Perturbation.CL: (
            f"Translate this text into {spoken}. Keep its meaning, its names and its tone. "
            "Write the translation only."
        ),
        Perturbation.RP: (
            f"Say this in other words, in the same language ({spoken}), with the same "
            "meaning and about "
            "the same length. Keep the names of countries, peoples and languages. Write the "
            "new text only."
        ),
        Perturbation.RC: (
            f"Rewrite this text, in the same language ({spoken}), without the names of countries, "
            "peoples, cultures and languages. Change nothing else than what grammar asks for. "
            "Write the new text only."
        ),
        Perturbation.CC: (
            f"This text is right for {cultures.name(culture)} culture. Change its one core "
            "cultural "
            "concept (the custom, food, date, rule, word or attitude that it is about) so that "
            "it is no longer right "
            f"there. Keep everything else: the language ({spoken}), the names of countries and "
            "peoples, the sentence form, "
            "the length. Write the new text only."
        ),
    }
    return f"{told[kind]}\n\n{text}"


def _language(tag: str) -> str:
    """An English name for a language where a registered culture has one, else the tag itself."""
    named = (culture.name for culture in cultures if same_language(culture.language, tag))
    return next(named, f"the language with the BCP 47 tag '{tag}'")
