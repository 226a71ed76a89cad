"""Spec strings, ``[NAME=]KIND:TARGET?key=value&...``, and the scorers that they open."""

import importlib
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points, version
from typing import cast
from urllib.parse import quote, urlencode

from pydantic import Field

from carb_data import (
    UNDETERMINED,
    UNSPECIFIED,
    CarbError,
    Frozen,
    check_language,
    closest,
    cultures,
    read_query,
)
from carb_scorers.scorer import (
    Scorer,
    ScoreRequest,
    ScorerSpec,
    told_culture,
)

ENTRY_POINTS = "carb.scorers"
"""Entry-point group under which other packages register their kinds."""

OPERATIONAL = "concurrency key_env patience price_in price_out retries timeout"
"""Options of the connection to a model, which never change a score, in any kind. They are no part
of a scorer's name nor of what makes it another scorer, so that a run may go on with other ones."""

_SECRET = re.compile(
    r"[?&](?:api_?key|auth|authorization|key|password|secret|token)=", re.IGNORECASE
)

_LONGEST_NAME = 64
_NAME = re.compile(rf"\w[^=:?#\x00-\x1f\x7f]{{0,{_LONGEST_NAME - 1}}}")

Options = Mapping[str, str]
"""The options of a spec, by name."""
Opener = Callable[[str, str, Options], Scorer]
"""``(name, target, options) -> Scorer``; raises ``CarbError`` for what the user can correct. A
package registers one; where it is a ``Kind``, it plans its scorers' requests, too."""


@dataclass(frozen=True)
class Planned:
    """How a scorer would ask, known without opening it."""

    asks: Callable[[ScoreRequest], Iterable[Sequence[str]]] | None = None
    """The texts that the model reads in each call about a request; ``None`` without a model."""
    comparative: bool = False
    longest: int = 0
    """Most tokens that a call may write."""


def _asks_in_the_items_language(spec: ScorerSpec) -> bool:
    return spec.parameters.get("prompt_language") == "item"


@dataclass(frozen=True)
class Kind:
    """A kind of scorer: calling it opens one."""

    opens: Opener
    plan: Callable[[str, str, Options], Planned]
    """``(name, target, options) -> Planned``."""
    reads_language: Callable[[ScorerSpec], bool] = _asks_in_the_items_language
    """Whether a scorer of the kind reads the language of a request."""

    def __call__(self, name: str, target: str, options: Options) -> Scorer:
        """Open a scorer."""
        return self.opens(name, target, options)


_BUILT_IN = {
    "baseline": "carb_scorers.baseline:open_baseline",
    "classifier": "carb_scorers.per_candidate:open_classifier",
    "implicit": "carb_scorers.per_candidate:open_implicit",
    "judge": "carb_scorers.judge.judge:open_judge",
}


class ParsedSpec(Frozen):
    """A spec string in its parts."""

    given: str | None = None
    """The user's own name for the scorer, in ``NAME=KIND:TARGET``; ``None`` where the spec has
    none."""
    kind: str
    target: str
    options: dict[str, str] = Field(default={})

    def __str__(self) -> str:
        if self.given:
            return f"{self.given}={self._written(self.options)}"
        return self._written(self.options)

    @property
    def name(self) -> str:
        """The user's own name, or else the spec without the options that do not matter to
        scores."""
        return self.given or self._written(
            {key: value for key, value in self.options.items() if key not in OPERATIONAL.split()}
        )

    def _written(self, options: Options) -> str:
        spec = f"{self.kind}:{self.target}"
        if options:
            query = urlencode(sorted(options.items()), quote_via=quote, safe="/:,")
            spec += f"?{query}"
        return spec


def parse_spec(text: str) -> ParsedSpec:
    """Split a spec string.

    Raises:
        CarbError: it does not have the form ``KIND:TARGET?key=value&...``, gives an option twice,
            or holds an API key.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        raise CarbError(f"A scorer is opened by a string, one at a time; got a {kind}.")
    if _SECRET.search(text):  # and say it without the text, which holds the secret
        raise CarbError(
            "A scorer was given a key as an option. A spec is kept in files and shown on screens, "
            "so it never holds a key: put the key into an environment variable, and give the "
            "variable's name in key_env=."
        )
    match = re.fullmatch(
        r"(?:([^=:?#]*)=)?([a-z][a-z0-9_-]*):([^?]+)(?:\?(.*))?", text.strip(), flags=re.DOTALL
    )
    if match is None:
        raise CarbError(
            f"'{text}' is not a scorer; write KIND:TARGET?key=value&..., for example "
            "baseline:length, classifier:path/to/model or "
            "judge:path/to/model?mode=listwise&read=logprob. A name of your own stands before it: "
            "mine=classifier:path/to/model."
        )
    given, kind, target, query = match.groups()
    if given is not None and _NAME.fullmatch(given) is None:
        raise CarbError(
            f"'{text}': '{given}' cannot be a scorer's name. A name has 1 to "
            f"{_LONGEST_NAME} characters, begins with a "
            f"letter or a digit, and has no line break, '=', ':', '?' or '#'."
        )
    return ParsedSpec(
        given=given, kind=kind, target=target, options=read_query(query, f"Scorer '{text}'")
    )


def open_scorer(spec: str) -> Scorer:
    """Open the scorer that a spec string describes; models are loaded here or at the first call.

    Every kind takes ``facts=BANK``, which makes it an open-book control; see
    ``carb_scorers.open_book``.

    Raises:
        CarbError: unknown kind, option or model, or a missing extra; the message has the remedy.
    """
    parsed = parse_spec(spec)
    options = dict(parsed.options)
    bank = options.pop("facts", None)
    if bank is not None:
        from carb_scorers.open_book import OpenBookScorer, search_of

        search = search_of(bank)  # a bank that is not there is found before a model is loaded
    opener = _opener(parsed.kind)
    try:
        scorer = opener(parsed.name, parsed.target, options)
    except CarbError:
        raise
    except Exception as error:  # in a third party's code, which must not end a whole run
        raise CarbError(f"'{parsed}' cannot be opened: {type(error).__name__}: {error}") from error
    if bank is None:
        return scorer
    return OpenBookScorer(scorer, bank, search)


def plan_of(parsed: ParsedSpec) -> Planned | None:
    """How the scorer of a spec would ask; ``None`` for a kind that does not say.

    Raises:
        CarbError: unknown kind, or an option has no such value.
    """
    opener = _opener(parsed.kind)
    options = {key: value for key, value in parsed.options.items() if key != "facts"}
    if not isinstance(opener, Kind):
        return None
    return opener.plan(parsed.name, parsed.target, options)


def check_given(scorer: object) -> None:
    """Refuse an argument that is no scorer.

    Raises:
        CarbError: it is neither a spec string nor a ``Scorer``.
    """
    if not isinstance(scorer, str | Scorer):
        raise CarbError(
            f"A {type(scorer).__name__} is no scorer. Give a spec such as 'baseline:length', or an "
            "object with the attribute 'spec' and the methods 'score' and 'aclose'."
        )


@asynccontextmanager
async def using(given: Scorer | str) -> AsyncIterator[Scorer]:
    """Use a scorer in an ``async with`` block.

    A spec string is opened first, and closed in the end. A ``Scorer`` that is given stays open.

    Raises:
        CarbError: it is neither, or cannot be opened.
    """
    check_given(given)
    if not isinstance(given, str):
        yield given
        return
    scorer = open_scorer(given)
    try:
        yield scorer
    finally:
        try:
            await scorer.aclose()
        except Exception as error:  # that it cannot be closed is no reason to lose its results
            warnings.warn(
                f"'{scorer.spec.name}' did not close: {type(error).__name__}: {error}", stacklevel=2
            )


def identity(spec: ScorerSpec) -> ScorerSpec:
    """The identity of a scorer: its spec without the parameters that do not matter to scores."""
    kept = {key: value for key, value in spec.parameters.items() if key not in OPERATIONAL.split()}
    return spec.changed(parameters=kept, in_flight=None)


def needs(spec: ScorerSpec) -> tuple[str, ...]:
    """Those of culture and language that a scorer reads, so that a caller must give them."""
    read = {"culture": told_culture(spec), "language": _language_reader(spec.kind)(spec)}
    return tuple(name for name, is_read in read.items() if is_read)


@cache
def _language_reader(kind: str) -> Callable[[ScorerSpec], bool]:
    opener = _opener(kind) if kind in kinds() else None
    if not isinstance(opener, Kind):
        return _asks_in_the_items_language
    return opener.reads_language


def asked_about(
    spec: ScorerSpec, culture: str | None, language: str | None, remedy: str
) -> tuple[str, str]:
    """Culture and language as a request names them; ``UNSPECIFIED`` and ``UNDETERMINED`` where not
    given and not read by the scorer.

    Args:
        spec: the scorer's.
        culture: id of a culture, or null.
        language: language tag, or null.
        remedy: what the caller can do where one is missing; ``{name}`` stands for it.

    Raises:
        CarbError: the scorer reads one that is missing, or a culture that is not registered.
    """
    given = {"culture": culture, "language": language}
    read = needs(spec)
    for name in read:
        if given[name] is None:
            raise CarbError(
                f"This scorer reads the {name} of each prompt: {remedy}".format(name=name)
            )
    if "culture" in read and culture not in cultures:
        raise cultures.unknown(str(culture))
    check_about(None, language)
    return culture or UNSPECIFIED, language or UNDETERMINED


def check_about(culture: str | None, language: str | None) -> None:
    """Refuse a culture that is not registered, and a language that is no tag.

    Raises:
        CarbError: one is; the message suggests a name.
    """
    if culture not in (None, UNSPECIFIED) and culture not in cultures:
        raise cultures.unknown(str(culture))
    if language is not None:
        check_language(language)


def kinds() -> list[str]:
    """All kinds that ``open_scorer`` knows: the built-in ones and those that installed packages
    register."""
    return sorted({*_BUILT_IN, *entry_points(group=ENTRY_POINTS).names})


def provider(kind: str) -> str:
    """The package that provides a kind and its version, as a run records it: ``tal-rlvr 0.1.0``.

    Raises:
        CarbError: unknown kind.
    """
    if kind in _BUILT_IN:
        return f"carb-scorers {version('carb-scorers')}"
    point = _registered(kind)
    if point.dist is None:
        return point.value
    return f"{point.dist.name} {point.dist.version}"


def _opener(kind: str) -> Opener:
    if kind in _BUILT_IN:
        module, _, name = _BUILT_IN[kind].partition(":")
        return cast("Opener", getattr(importlib.import_module(module), name))
    point = _registered(kind)
    try:
        opener = point.load()
    except (ImportError, AttributeError) as error:
        raise CarbError(
            f"The scorer kind '{kind}' ({point.value}) cannot be loaded: {error}"
        ) from error
    if not callable(opener):
        raise CarbError(
            f"The scorer kind '{kind}' ({point.value}) is not a function (name, target, options)."
        )
    return cast("Opener", opener)


def _registered(kind: str) -> EntryPoint:
    """The entry point of a third party's kind."""
    registered = {point.value: point for point in entry_points(group=ENTRY_POINTS, name=kind)}
    if len(registered) > 1:
        raise CarbError(
            f"Several packages register the scorer kind '{kind}': {', '.join(registered)}. "
            "Uninstall all but one."
        )
    if not registered:
        raise CarbError(
            f"Unknown scorer kind '{kind}'.{closest(kind, kinds())} Known kinds: "
            f"{', '.join(kinds())}."
        )
    return next(iter(registered.values()))
