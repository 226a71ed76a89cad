"""Defects of a file or an option have one form for every model; a missing extra, the line that
installs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from carb_data import CarbError, install_line
from carb_data.models import Frozen
from carb_data.validation import read_file, validate


class _Inner(Frozen):
    share: float


class _Ring(Frozen):
    shape: Literal["ring"]
    radius: float


class _Box(Frozen):
    shape: Literal["box"]
    width: float
    ring: bool = False


class _Form(Frozen):
    size: int
    parts: tuple[_Inner, ...] = ()
    by_name: dict[str, _Inner] = Field(default={})
    border: Annotated[_Ring | _Box, Field(discriminator="shape")] | None = None


def test_every_defect_is_said_with_its_field_and_value():
    with pytest.raises(CarbError) as caught:
        validate(
            _Form,
            {"size": "many", "prats": 1, "parts": [{}]},
            "x.toml is not a form",
            "Look at the example.",
        )
    assert str(caught.value) == (
        "x.toml is not a form: size: must be a whole number, "
        "got 'many'; parts.0.share is missing; 'prats' is unknown, did you mean 'parts'? "
        "Look at the example."
    )


@pytest.mark.parametrize(
    ("content", "field", "meant"),
    [
        ({"parts": [{"shere": 1}]}, "parts.0.shere", "share"),
        ({"by_name": {"size": {"shar": 1}}}, "by_name.size.shar", "share"),
        ({"border": {"shape": "box", "widht": 1}}, "border.box.widht", "width"),
        ({"border": {"shape": "ring", "radis": 1}}, "border.ring.radis", "radius"),
    ],
)
def test_an_unknown_name_gets_the_near_one_of_its_own_table(content, field, meant):
    with pytest.raises(CarbError, match=f"'{field}' is unknown, did you mean '{meant}'"):
        validate(_Form, {"size": 1, **content}, "x.toml is not a form")


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ({"files": 1}, "known are size, parts, by_name, border"),
        ({"parts": [{"files": 1}]}, "known are share"),
        ({"border": {"shape": "ring", "width": 1}}, "known are shape, radius"),
    ],
)
def test_where_no_name_is_near_those_that_there_are_are_listed(content, known):
    with pytest.raises(CarbError, match=rf"'[^']*(files|width)' is unknown \({known}\)"):
        validate(_Form, {"size": 1, **content}, "x.toml is not a form")


def test_a_long_value_is_not_repeated_and_many_defects_are_cut():
    with pytest.raises(CarbError) as caught:
        validate(list[int], ["x" * 1000] * 50, "The list is not right")
    assert "xxx" not in str(caught.value)
    assert "and 30 more" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "size = = 1", "is not TOML: .*line 1"),
        ("a.json", "{", "is not JSON: .*line 1 column 2"),
        ("a.json", '{"size": 1, "size": "\ud800"}', "is not JSON"),
        ("a.json", "[" * 100_000, "is not JSON: maximum recursion"),
        ("a.toml", "x = " + "[" * 100_000, "is not TOML"),
    ],
)
def test_a_broken_file_is_said_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(CarbError, match=said):
        read_file(_Form, tmp_path / name, "form")


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    """Put a distribution of which pip recorded ``origin`` on the path."""
    info = folder / "borrowed_name-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: borrowed-name\nVersion: 1.0\n")
    if origin is not None:
        (info / "direct_url.json").write_text(
            origin if isinstance(origin, str) else json.dumps(origin)
        )
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "pip install 'borrowed-name[hf]'"),
        ("not json", "pip install 'borrowed-name[hf]'"),
        ({"url": "https://x.org/a.whl", "archive_info": {}}, "pip install 'borrowed-name[hf]'"),
        ({"url": "file:///a/b%20c", "dir_info": {"editable": True}}, "pip install -e '/a/b c[hf]'"),
        ({"url": "file:///a/b", "dir_info": {}}, "pip install '/a/b[hf]'"),
        (
            {
                "url": "https://x.org/r.git",
                "vcs_info": {"vcs": "git", "commit_id": "0"},
                "subdirectory": "packages/p",
            },
            "pip install 'borrowed-name[hf] @ git+https://x.org/r.git#subdirectory=packages/p'",
        ),
    ],
)
def test_the_line_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: object, line: str
) -> None:
    installed(tmp_path, monkeypatch, origin)
    assert install_line("borrowed-name[hf]") == line


def test_a_package_that_is_not_installed() -> None:
    assert install_line("no-such-distribution[hf]") == "pip install 'no-such-distribution[hf]'"
