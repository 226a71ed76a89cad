"""The line that a missing extra answers with fits the way in which the package was installed."""

import json
from pathlib import Path

import pytest

from carb_data import install_line


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    """Put a distribution of which pip recorded ``origin`` on the path."""
    info = folder / "borrowed_name-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: borrowed-name\nVersion: 1.0\n")
    if origin is not None:
        (info / "direct_url.json").write_text(origin if isinstance(origin, str) else json.dumps(origin))
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
            {"url": "https://x.org/r.git", "vcs_info": {"vcs": "git", "commit_id": "0"}, "subdirectory": "packages/p"},
            "pip install 'borrowed-name[hf] @ git+https://x.org/r.git#subdirectory=packages/p'",
        ),
    ],
)
def test_the_line_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: object, line: str) -> None:
    installed(tmp_path, monkeypatch, origin)
    assert install_line("borrowed-name", "hf") == line


def test_a_package_that_is_not_installed() -> None:
    assert install_line("no-such-distribution", "hf") == "pip install 'no-such-distribution[hf]'"
