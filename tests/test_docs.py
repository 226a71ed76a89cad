"""The documentation keeps its word: every code block runs, every link leads somewhere, every page
is in the menu."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from carb_cli import main
from pages import SILENT, Page, blocks

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

WRITTEN = ["README.md", "docs/**/*.md", "examples/*.md", "packages/*/README.md"]
PAGES = sorted(str(path.relative_to(ROOT)) for pattern in WRITTEN for path in ROOT.glob(pattern))


@pytest.mark.filterwarnings(
    "ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"
)  # of TRL itself
@pytest.mark.parametrize("name", PAGES)
def test_every_code_block_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """``Page.run`` fails where a block does. A note above a block says what it needs, or why it is
    not run."""
    found = [
        block
        for block in blocks(ROOT / name)
        if block.language not in SILENT and block.reason is None
    ]
    found = [
        block for block in found if block.note not in ("demo", "tests")
    ]  # they make the environment of this test
    notes = "\n".join(block.note for block in found)
    if "needs: public data" in notes:
        monkeypatch.setenv("CARB_DATA_DIR", str(request.getfixturevalue("public_data").resolve()))
    for path in re.findall(r"model: (\S+)", notes):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).symlink_to(request.getfixturevalue("gemma"))
    for path in set(re.findall(r"policy: (\S+)", notes)):
        import tiny_models

        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)

        small = tiny_models.folder(tmp_path / "models", "llama", "CausalLM", chat=True, pad="<pad>")
        (tmp_path / path).symlink_to(small)
    monkeypatch.chdir(tmp_path)
    page = Page(tmp_path, main)
    for block in found:
        page.run(block)


def test_the_python_of_the_pages_has_strict_types(tmp_path: Path) -> None:
    from mypy import api

    for name in PAGES:
        text = "\n".join(one.text for one in blocks(ROOT / name) if one.language == "python")
        (tmp_path / re.sub(r"\W", "_", name)).with_suffix(".py").write_text(text, encoding="utf-8")
    configuration = str(ROOT / "pyproject.toml")
    printed, _, failed = api.run(["--config-file", configuration, str(tmp_path)])
    assert not failed, printed


def test_the_tables_of_coverage_are_as_they_were_printed() -> None:
    """``nox -s coverage`` writes both; a number that was changed by hand is found here."""
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- coverage -->\n")[2].partition("<!-- end -->")[0]
    assert shown == (DOCS / "coverage.txt").read_text(encoding="utf-8")


def test_every_page_is_in_the_menu() -> None:
    from make_reference import generated

    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    listed = [path for entry in nav for path in entry.values()]
    assert sorted(listed) == sorted(
        [*(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")), *generated()]
    )


def test_the_stability_of_each_public_name_is_on_the_page_of_python() -> None:
    from make_reference import generated

    import carb_metrics

    page = generated()["reference/python.md"]
    rows = dict(re.findall(r"^\| `(\w+)` \| (stable|provisional) \|$", page, re.MULTILINE))
    assert set(rows) >= set(carb_metrics.__all__)
    kept = {"load", "Dataset", "ScoreTable", "evaluate", "bon_accuracy", "family_accuracy"}
    assert {rows[name] for name in kept} == {"stable"}
    assert rows["write_whole"] == "provisional"


@pytest.mark.parametrize("name", [*PAGES, "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name: str) -> None:
    text = re.sub(
        r"^```.*?^```$",
        "",
        (ROOT / name).read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    for target in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", text):
        made = target.startswith("reference/") or "/reference/" in target
        if "://" not in target and not made:
            assert ((ROOT / name).parent / target).exists(), f"{name} links to {target}"


def test_the_site_has_a_review_page_of_eight_sets(tmp_path: Path) -> None:
    """An organiser opens it on a phone before she installs anything."""
    from make_site import REVIEW, relinked, write_review

    write_review(tmp_path / "review.html")
    text = (tmp_path / "review.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert len(json.loads(data[1])["items"]) == 8
    assert relinked(f"[x]({REVIEW})", DOCS / "index.md", "index.md") == f"[x]({REVIEW})"
    for page in ("README.md", "docs/index.md"):
        assert "phone" in (ROOT / page).read_text(encoding="utf-8")


def test_the_site_gets_headings_and_blocks_that_its_markdown_knows() -> None:
    """A heading right behind a comment, or a block with a bare file name, would be plain text
    there."""
    from make_site import relinked

    text = "<!-- a note -->\n## Head\n\n```toml run.toml\n[a](b)\n<!-- kept -->\n```\n"
    page = relinked(text, DOCS / "index.md", "index.md")
    assert page == '## Head\n\n```toml title="run.toml"\n[a](b)\n<!-- kept -->\n```\n'


def test_a_link_whose_words_are_broken_over_two_lines_is_a_link() -> None:
    from make_site import relinked

    text = "[The\nstudy](../studies/open_book/README.md) and [the\nmethod](method.md#people)\n"
    page = relinked(text, DOCS / "train.md", "train.md")
    assert "](../studies" not in page
    assert "[the\nmethod](method.md#people)" in page


def test_what_we_found_is_what_the_kept_rows_say() -> None:
    """``python docs/make_found.py`` changes nothing, and the text says no number that no table of
    the page holds."""
    from make_found import PAGE, made, unfounded

    assert [
        path.name for path, text in made().items() if path.read_text(encoding="utf-8") != text
    ] == []
    page = PAGE.read_text(encoding="utf-8")
    assert unfounded(page) == set()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    quoted = re.findall(r"\d+\.\d% (\[\d+\.\d, \d+\.\d\])", readme)
    assert quoted
    assert all(interval in page for interval in quoted)
