"""Forms of judging as data: the prompt of each mode, the pattern of its verdict, and its usual
options."""

import re
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from carb_data import CarbError, Frozen, closest, home_path, read_file
from carb_scorers.jinja_filling import checked_template

Mode = Literal["listwise", "pairwise", "pointwise"]
MODES: tuple[Mode, ...] = ("listwise", "pairwise", "pointwise")


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            "a verdict pattern has exactly one group, which holds the verdict; this one "
            f"has {groups}"
        )
    return text


Template = Annotated[str, AfterValidator(checked_template)]
"""Jinja text; docs/evaluate.md lists the fields that it may use."""


def _rising(scale: tuple[int, int]) -> tuple[int, int]:
    if scale[0] >= scale[1]:
        raise ValueError(
            f"a scale goes from a lower to a higher number, got {scale[0]}, {scale[1]}"
        )
    return scale


class Wording(Frozen):
    """A judge's prompt in one mode, and the rule that reads its answer."""

    system: Template | None = None
    """The system message; without it there is none."""
    user: Template
    """The user's message, with the question and the candidates."""
    verdict: Annotated[str, AfterValidator(_pattern)] = r"\[\[(.*?)\]\]"
    """Regular expression (Python's) of the verdict in what the judge wrote; its one group holds the
    verdict."""
    take: Literal["only", "last"] = "only"
    """``only``: different verdicts in one text are an error. ``last``: the last one counts."""
    tie: tuple[str, ...] = ()
    """Verdicts that call a tie, in any case; the candidates shown then share the win. Beside them
    the words of the ten languages for a tie count. A pairwise wording that offers ``[[C]]`` means a
    tie by it, as MT-Bench does."""
    before_letter: tuple[str, ...] = ()
    """Words before the letter of a verdict, such as ``Option`` in ``[[Option A]]``. Those of the
    ten languages are known."""
    reads: Annotated[tuple[Literal["logprob", "generate"], ...], Field(min_length=1)] = (
        "generate",
    )
    """Ways to read the judge for which the wording is meant; the first is the default."""
    scale: Annotated[tuple[int, int], AfterValidator(_rising)] = (1, 10)
    """Pointwise: lowest and highest rating."""
    values: Mapping[str, FiniteFloat] = Field(default={})
    """Pointwise: ratings that are words, in lower case, such as ``true = 1``; they take the place
    of the scale."""

    @property
    def ratings(self) -> dict[str, float]:
        """Each rating that can be written, and its value."""
        lowest, highest = self.scale
        numbers = range(lowest, highest + 1)
        return dict(self.values) or {str(number): float(number) for number in numbers}


def _with_tie_of_mt_bench(wording: Wording | None) -> Wording | None:
    if wording is None or wording.tie or "[[C]]" not in f"{wording.system}{wording.user}":
        return wording
    return wording.changed(tie=("C",))


IN_BRACKETS = Wording(user="")
"""The default pattern of a verdict."""


class FormFile(Frozen):
    """A form of judging: ``judge:MODEL?form=NAME``, or a file of one's own, ``form=my.toml``."""

    title: str
    """A description in a few words."""
    source: str | None = None
    """The URL of its publication."""
    licence: str | None = None
    """Licence of that publication (SPDX)."""
    note: str | None = None
    """Notes for a user: how close the wording is to the published one, and omissions."""
    without_culture: str | None = None
    """Name of the form that asks where an item's culture is not known; by default the form
    itself."""
    rubric: Template | None = None
    """Criteria, which the wordings insert as ``{{ rubric }}``."""
    defaults: Mapping[str, str | int | float] = Field(default={})
    """Options of ``judge:`` that hold where the user gives no others, such as ``max_tokens``."""
    listwise: Wording | None = None
    pairwise: Annotated[Wording | None, AfterValidator(_with_tie_of_mt_bench)] = None
    pointwise: Wording | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.modes:
            raise ValueError(f"a form needs at least one of the tables {', '.join(MODES)}")
        return self

    @cached_property
    def placeless(self) -> "FormFile":
        """The form that asks where an item's culture is not known."""
        if self.without_culture is None:
            return self
        return read_form(self.without_culture)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that the form has."""
        return tuple(mode for mode in MODES if getattr(self, mode) is not None)

    def wording(self, mode: Mode) -> Wording:
        """The wording of a mode.

        Raises:
            CarbError: the form does not have that mode.
        """
        wording: Wording | None = getattr(self, mode)
        if wording is None:
            raise CarbError(
                f"The form '{self.title}' has no mode={mode}; it has {', '.join(self.modes)}."
            )
        return wording


def form_names() -> list[str]:
    """Names of the forms that are shipped."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _folder().iterdir()
        if entry.name.endswith(".toml")
    )


def form_text(name: str) -> str:
    """The file of a shipped form, as a beginning for one's own.

    Raises:
        CarbError: there is no such form.
    """
    return _file(name).read_text(encoding="utf-8")


def read_form(name: str) -> FormFile:
    """A shipped form by name, or one's own by path (``.toml`` or ``.json``).

    Raises:
        CarbError: there is no such form, or the file is not right; the message names the field.
    """
    return read_file(FormFile, _file(name), "form")


def _file(name: str) -> Traversable:
    shipped = _folder() / f"{name}.toml"
    if shipped.is_file():
        return shipped
    path = home_path(name)
    if path.is_file():
        return path
    names = form_names()
    raise CarbError(
        f"There is no form '{name}'.{closest(name, names)} Give a file (.toml or .json), or "
        f"one of: {', '.join(names)}."
    )


def _folder() -> Traversable:
    return resources.files("carb_scorers") / "forms"
