"""Copies, texts in another language than declared, and perturbations that are not what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from carb_data.checks.report import Finding
from carb_data.labels import names_culture
from carb_data.language import in_languages, shows_another_language
from carb_data.models import BonSet, Perturbation, Response, Role
from carb_data.ngrams import NgramIndex, normalise

Spoken = Mapping[tuple[str, str], bool]
"""Whether a text is in a language, by text and BCP 47 tag."""


def find_duplicates(items: Sequence[BonSet], threshold: float) -> Iterator[Finding]:
    """Prompts that come again, and responses of one set that say the same in the same words.

    The same prompt twice is an error, unless the sets come from one source item (and so never part in a split).
    ``threshold`` is the share of n-grams that makes near-duplicates. Each set is compared with all earlier ones and
    reported once, with the closest.
    """
    for item in items:
        yield from _repeated_responses(item)
    closest: dict[int, tuple[float, bool, int]] = {}
    index = NgramIndex([item.prompt_text for item in items], threshold)
    for match in index.matches(item.prompt_text for item in items):
        first = index.copies(match.indexed)[0]
        early, late = sorted((first, match.streamed))
        if early != late and items[early].source_item != items[late].source_item:
            closest[late] = max(closest.get(late, (0.0, False, 0)), (match.containment, match.exact, early))
    for late, (share, exact, early) in sorted(closest.items()):
        same = exact and items[early].culture == items[late].culture
        yield Finding(
            severity="error" if same else "warning",
            check="duplicate" if exact else "near-duplicate",
            item_id=items[late].id,
            field="prompt",
            message=f"the same prompt as '{items[early].id}', which has another source item"
            if exact
            else f"shares {share:.0%} of the n-grams of '{items[early].id}'",
        )


_NUMBER = re.compile(r"\d(?:[^\w\s]?[\u00a0\u202f ]?\d)+")


def _repeated_responses(item: BonSet) -> Iterator[Finding]:
    seen: dict[str, Response] = {}
    for response in item.responses:
        # 1.234,5 and 1,234.5 are two answers: marks within numbers count.
        text = " ".join([normalise(response.text) or response.text, *_NUMBER.findall(response.text)])
        if text in seen:
            against = Role.CHOSEN in (seen[text].role, response.role)
            yield Finding(
                severity="error",
                check="duplicate",
                item_id=item.id,
                field=response.id,
                message=f"the same text as '{seen[text].id}'"
                + (", but the one is right and the other wrong" * against),
            )
        seen.setdefault(text, response)


def find_wrong_languages(items: Sequence[BonSet], spoken: Spoken) -> Iterator[Finding]:
    """Prompts and responses that the detector does not take for their declared language."""
    for item in items:
        texts = chain(
            [("prompt", item.prompt_text, item.language)],
            ((r.id, r.text, r.language) for r in (*item.responses, *item.perturbed)),
        )
        for field, text, language in texts:
            if not spoken[text, language] and shows_another_language(text, language):
                yield Finding(
                    severity="warning",
                    check="language",
                    item_id=item.id,
                    field=field,
                    message=f"declared as '{language}', but does not look like it",
                )


def languages_of(items: Sequence[BonSet]) -> Spoken:
    """For every text: is it in its declared language, and a response also in its prompt's language?"""
    pairs: dict[tuple[str, str], None] = {}
    for item in items:
        pairs[item.prompt_text, item.language] = None
        for response in (*item.responses, *item.perturbed):
            pairs[response.text, response.language] = None
        for response in item.responses:
            pairs[response.text, item.language] = None
    return dict(zip(pairs, in_languages(list(pairs)), strict=True))


def find_bad_perturbations(items: Sequence[BonSet]) -> Iterator[Finding]:
    """Perturbed texts that did not change what they should have, or did change what they should not."""
    for item in items:
        originals = {response.id: response for response in item.responses}
        for response in item.perturbed:
            assert response.original is not None
            for severity, message in _perturbation_faults(item, originals[response.original], response):
                yield Finding(
                    severity="error" if severity else "warning",
                    check="perturbation",
                    item_id=item.id,
                    field=response.id,
                    message=f"{response.perturbation}: {message}",
                )


def _perturbation_faults(item: BonSet, original: Response, changed: Response) -> Iterator[tuple[bool, str]]:
    """Whether it is an error, and what is wrong."""
    if normalise(original.text) == normalise(changed.text):
        yield True, "the same text as its original"
        return
    named = names_culture(original.text, item.culture)
    names = names_culture(changed.text, item.culture)
    if changed.perturbation is Perturbation.RC:
        if not named:
            yield False, "its original does not name the culture"
        if names:
            yield True, "still names the culture"
    elif named and not names:
        yield False, "no longer names the culture"
    same_language = changed.language.partition("-")[0] == original.language.partition("-")[0]
    if changed.perturbation is Perturbation.CL and same_language:
        yield True, "in the language of its original"
    if changed.perturbation is not Perturbation.CL and not same_language:
        yield True, f"in another language ('{changed.language}') than its original"
