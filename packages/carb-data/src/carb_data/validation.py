"""Reads files and options into models, and reports defects by file, field and value."""

import difflib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError

from carb_data.errors import SHOWN_PROBLEMS, CarbError, Problem
from carb_data.packaged import resource

_M = TypeVar("_M")
_Model = TypeVar("_Model", bound=BaseModel)
_LONGEST_VALUE = 60
"""Characters of a wrong value up to which a message repeats it."""


def _json_object(value: str) -> str:
    try:
        content = json.loads(value)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("must be a JSON object")
    return value


_adapter = cache(TypeAdapter)
JsonObject = Annotated[str, AfterValidator(_json_object)]
"""The type of an option that holds a JSON object, as text."""


def validate(
    form: type[_M],
    content: object,
    owner: str,
    hint: str = "",
    *,
    strict: bool | None = None,
) -> _M:
    """Validate content against a model.

    Args:
        form: The model, or another type that holds models.
        content: Python values, or the bytes of a JSON file.
        owner: The beginning of the message, such as ``suite.toml is not a suite``.
        hint: A sentence with the remedy; none by default.
        strict: Whether a text that reads as a number is no number.

    Raises:
        CarbError: Names every field that is unknown (with the nearest known one, or all), missing,
            or wrong (with the value that was given).
    """
    adapter: TypeAdapter[_M] = _adapter(form)  # type: ignore[arg-type]  # a type is hashable
    try:
        if isinstance(content, bytes):
            return adapter.validate_json(content, strict=strict)
        return adapter.validate_python(content)
    except ValidationError as error:
        sentences = [_sentence(*each, form) for each in _each(error)]
        told = "; ".join(sentences[:SHOWN_PROBLEMS])
        if len(sentences) > SHOWN_PROBLEMS:
            told += f"; and {len(sentences) - SHOWN_PROBLEMS} more"
        if not told.endswith("?"):
            told += "."
        if hint:
            told += f" {hint}"
        raise CarbError(f"{owner}: {told}") from None


def read_options(model: type[_Model], owner: str, options: Mapping[str, Any]) -> _Model:
    """Validate options against a model that forbids unknown ones.

    Args:
        model: The model.
        owner: Whose options they are: the beginning of the error's message.
        options: Values by name.

    Raises:
        CarbError: Names every option that is unknown or has a bad value.
    """
    return validate(model, dict(options), owner)


def repeated(names: Iterable[str]) -> list[str]:
    """The names that come more than once, in the order in which they come first."""
    counts = Counter(names)
    return [name for name, times in counts.items() if times > 1]


def closest(name: str, known: Iterable[str]) -> str:
    """A question for the end of an error's message: does the user mean a known name?

    Args:
        name: What the user wrote.
        known: The names that there are.

    Returns:
        `` Did you mean 'X'?`` with the known name that is most similar, or else the first that
        contains ``name`` or begins with something like it. An empty text otherwise.
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    near += [other for other in names if name and name in other]
    begun = {other[: len(name)]: other for other in reversed(names)}
    parts = difflib.get_close_matches(name, begun, n=1, cutoff=0.8)
    near += [begun[part] for part in parts]
    if near:
        return f" Did you mean '{near[0]}'?"
    return ""


def read_query(query: str | None, owner: str) -> dict[str, str]:
    """Split ``key=value&...`` into names and values.

    Args:
        query: The text; null or empty has no options.
        owner: Whose options they are, for the error's message: ``Scorer 'judge:x'``.

    Raises:
        CarbError: it does not have that form, or gives an option twice.
    """
    try:
        pairs = parse_qsl(query or "", keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise CarbError(
            f"{owner}: the part after '?' must be key=value pairs joined by '&'."
        ) from None
    if len(dict(pairs)) != len(pairs):
        raise CarbError(f"{owner} gives an option twice.")
    return dict(pairs)


def parse_file(file: Traversable, kind: str) -> dict[str, Any]:
    """The names and values of a TOML or JSON file.

    Args:
        file: A ``.json`` file, or any other name for TOML.
        kind: What the file is, for messages: ``suite``, ``training configuration``.

    Raises:
        CarbError: The file cannot be read, or is neither (with the line and the column), or holds
            no object.
    """
    content = _content(file, kind)
    if not isinstance(content, dict):
        raise CarbError(f"{file} must hold a JSON object, not a {type(content).__name__}.")
    return content


def read_file(
    form: type[_M],
    file: Traversable,
    kind: str,
    hint: str = "",
) -> _M:
    """Read a TOML or JSON file into a model.

    Args:
        form: The model, or another type that holds models.
        file: A ``.json`` file, or any other name for TOML.
        kind: What the file is, for messages: ``suite``, ``training configuration``.
        hint: A sentence with the remedy for a wrong file; none by default.

    Raises:
        CarbError: The file cannot be read, is neither TOML nor JSON, or a field is unknown, missing
            or wrong.
    """
    return validate(form, _content(file, kind), f"{file} is not a valid {kind}", hint)


def _content(file: Traversable, kind: str) -> object:
    written = "TOML"
    read: Callable[[str], object] = tomllib.loads
    if file.name.endswith(".json"):
        written = "JSON"
        read = json.loads
    try:
        return read(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CarbError(
            f"Cannot read the {kind} {file}: {error.strerror or error}. Check the path."
        ) from None
    except (ValueError, RecursionError) as error:  # a decoder's, which names line and column
        raise CarbError(f"{file} is not {written}: {error}.") from None


def line_problems(path: str | Path, line: int, error: ValidationError) -> Iterator[Problem]:
    """Every defect of a line of a file, with its place."""
    for field, reason, _ in _each(error):
        yield Problem(str(path), line, field, reason)


def first_defect(error: ValidationError) -> str:
    """The first defect of a pydantic error, as ``field: reason``.

    It leaves out the value, so that items that are wrong in the same way have equal texts. For a
    list of turns it reports the fault of a turn, and not that a list is no text.
    """
    defects = _each(error)
    field, reason, detail = next(defects)
    if field == "prompt" and isinstance(detail["input"], list):
        field, reason, _ = next(defects, (field, reason, detail))
    if field:
        return f"{field}: {reason}"
    return reason


_DEFECTS: dict[str, dict[str, str]] = resource("defects")
"""Wordings for pydantic's types of errors, filled with the error's ``ctx``, and for patterns that a
text does not match."""


def _each(error: ValidationError) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for detail in error.errors(include_url=False):
        context = detail.get("ctx", {})
        steps = detail["loc"]
        match steps:
            case ("prompt", form, *rest) if not str(form).isdigit():
                # without the name of the form that the prompt was taken for
                steps = ("prompt", *rest)
        if told := context.get("field"):  # of a defect that only the whole set or response shows
            steps = (*steps, told)
        field = ".".join(map(str, steps))
        kind = detail["type"]
        reason = detail["msg"].removeprefix("Value error, ")
        if kind == "string_pattern_mismatch":
            unlike = "does not have the form that it needs"
            reason = _DEFECTS["patterns"].get(context["pattern"], unlike)
        elif kind in _DEFECTS["types"]:
            reason = _DEFECTS["types"][kind].format(**context)
        yield field, reason, dict(detail)


def _sentence(
    field: str,
    reason: str,
    detail: dict[str, Any],
    form: object,
) -> str:
    if detail["type"] == "missing":
        return f"{field} is missing"
    if detail["type"] == "extra_forbidden":
        *steps, name = detail["loc"]
        known = _known(form, steps)
        close = difflib.get_close_matches(str(name), known, n=1)
        if close:
            return f"'{field}' is unknown, did you mean '{close[0]}'?"
        return f"'{field}' is unknown (known are {', '.join(known) or 'no options'})"
    value = detail["input"]
    if isinstance(value, str | int | float) and len(repr(value)) <= _LONGEST_VALUE:
        reason += f", got {value!r}"
    if field:
        return f"{field}: {reason}"
    return reason


def _known(form: object, steps: Iterable[str | int]) -> list[str]:
    """Names of the fields of the object to which steps lead: fields, numbers, tags of a union."""
    models = [*_models(form)]
    for step in steps:
        named = [model.model_fields[step] for model in models if step in model.model_fields]
        inner = [model for model in models if _has_tag(model, step)]
        if not inner:
            inner = [model for field in named for model in _models(field.annotation)]
        models = inner or models
    return [field.alias or name for model in models for name, field in model.model_fields.items()]


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that an annotation holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _has_tag(model: type[BaseModel], tag: str | int) -> bool:
    """Whether a field of a model must be ``tag``, so that it tells the model from others."""
    return any(get_args(field.annotation) == (tag,) for field in model.model_fields.values())


def repeated_name(document: bytes) -> str | None:
    """The first name that an object of a JSON document has twice; null where there is none.

    A parser keeps the last of the values, and drops the others.

    Raises:
        ValueError: the document is no JSON.
    """
    twice: list[str] = []

    def count(pairs: list[tuple[str, Any]]) -> None:
        twice.extend(repeated(name for name, _ in pairs))

    json.loads(document, object_pairs_hook=count, parse_int=str)
    return next(iter(twice), None)
