"""The documentation keeps its word: every code block runs, every page is reachable, what is generated is current."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from carb_cli import main
from pages import SILENT, Block, Page, blocks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

TUTORIALS = sorted(str(path.relative_to(ROOT)) for path in (DOCS / "tutorials").glob("*.md"))
STATISTICS = [
    "packages/carb-metrics/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (DOCS / "statistics").glob("*.md")),
]
ELSEWHERE = {
    **dict.fromkeys(TUTORIALS, "tests/test_tutorials.py"),
    "docs/new-culture.md": "tests/test_new_culture.py",
    "docs/scale.md": "tests/test_scale_page.py",
    **dict.fromkeys(STATISTICS, "packages/carb-metrics/tests/test_metrics_readme.py"),
    "docs/how-to/integrations.md": "tests/test_integrations_examples.py",
}
"""Pages whose blocks another test runs."""

NOT_RUN = {
    "README.md": {"python3 -m venv": "is what makes the environment of the tests"},
    "docs/downstream.md": {
        "carb bon": "samples a real policy for minutes; tests/test_downstream_bon.py runs it",
        "carb train-policy": "trains; the tests of the policy trainer run it",
        "carb failures": "names a model; packages/carb-cli/tests/test_failures.py runs it",
    },
    "docs/authoring.md": {"my-sets.jsonl": "is the reader's file"},
}
"""Blocks of pages that others write which cannot run here, by what they contain, and why."""


def pages() -> list[str]:
    """Every page that is written by hand."""
    written = [*DOCS.rglob("*.md"), ROOT / "README.md", *(ROOT / "packages").glob("*/README.md")]
    names = sorted(str(path.relative_to(ROOT)) for path in written)
    return [name for name in names if not name.startswith("docs/reference/")]


def why_not(page: str, block: Block) -> str | None:
    """Why a block is not run; none where it is."""
    marked = [why for part, why in NOT_RUN.get(page, {}).items() if part in block.text]
    return block.reason or (marked[0] if marked else None)


@pytest.mark.parametrize("name", [name for name in pages() if name not in ELSEWHERE])
def test_every_code_block_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """``Page.run`` fails where a block does."""
    found = [block for block in blocks(ROOT / name) if block.language not in SILENT and why_not(name, block) is None]
    folder = tmp_path / "repository"
    folder.mkdir()
    text = "\n".join(block.text + block.note for block in found)
    if any(part in text for part in ("data build", "blend:?", 'build("blend"')):
        monkeypatch.setenv("CARB_DATA_DIR", str(request.getfixturevalue("public_data").resolve()))
    for path in {block.note.partition("model:")[2].strip() for block in found} - {""}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(request.getfixturevalue("gemma"))
    monkeypatch.chdir(folder)
    page = Page(folder, main)
    for block in found:
        page.run(block)


def test_blocks_that_are_not_run_say_why() -> None:
    for name in pages():
        for block in blocks(ROOT / name):
            if "not run" in block.note:
                assert block.reason, f"{name}: {block.text[:60]}"
    for page, parts in NOT_RUN.items():
        texts = [block.text for block in blocks(ROOT / page)]
        for part, why in parts.items():
            assert any(part in text for text in texts), f"{page} has no block with {part!r} any more"
            for test in re.findall(r"(?:tests|packages)/\S+\.py", why):
                assert (ROOT / test).is_file(), test


def test_pages_that_are_tested_elsewhere_are() -> None:
    for page, test in ELSEWHERE.items():
        assert (ROOT / page).is_file()
        assert (ROOT / test).is_file()


def test_every_page_is_in_the_navigation() -> None:
    import tomllib

    def paths(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        entries = entry if isinstance(entry, list) else list(entry.values())
        return [path for part in entries for path in paths(part)]

    listed = paths(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    packages = {f"packages/{path.name}.md" for path in (ROOT / "packages").iterdir() if (path / "README.md").exists()}
    assert sorted(listed) == sorted(written | packages)


def test_links_lead_somewhere() -> None:
    from make_site import relinked, sources

    known = set(sources().values()) | {f"images/{path.name}" for path in (DOCS / "images").iterdir()}
    for source, page in sources().items():
        written = re.sub(r"^```.*?^```$", "", source.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", written):
            if "://" not in target:
                assert (source.parent / target).exists(), f"{source.relative_to(ROOT)} links to {target}"
        text = relinked(source.read_text(encoding="utf-8"), source, page)
        text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", text):
            if "://" not in target:
                goal = (Path("/") / page).parent / target
                resolved = str(goal.resolve().relative_to("/"))
                assert resolved in known, f"{source.relative_to(ROOT)} links to {target}"


def test_the_site_gets_headings_and_blocks_that_its_markdown_knows() -> None:
    """A heading right behind a comment, or a block with a bare file name, would be plain text there."""
    from make_site import relinked, sources

    text = "<!-- a note -->\n## Head\n\n```toml run.toml\n[a](b)\n<!-- kept -->\n```\n"
    page = relinked(text, DOCS / "index.md", "index.md")
    assert page == '## Head\n\n```toml title="run.toml"\n[a](b)\n<!-- kept -->\n```\n'
    for source, name in sources().items():
        page = relinked(source.read_text(encoding="utf-8"), source, name)
        assert not re.search(r"^```\w+ [^\n=]+$", page, flags=re.MULTILINE), name
        assert not re.search(r"^<!--[^\n]*\n#", page, flags=re.MULTILINE), name


def test_the_reference_is_current() -> None:
    """``python docs/make_reference.py`` would change nothing."""
    from make_reference import install_lines
    from make_reference import pages as generated

    made = generated() | install_lines()
    stale = [
        str(path.relative_to(ROOT)) for path, text in made.items() if not path.is_file() or path.read_text() != text
    ]
    assert not stale, f"run `python docs/make_reference.py`: {stale}"
    pages = {path for path in made if path.is_relative_to(DOCS / "reference")}
    assert {path for path in (DOCS / "reference").rglob("*") if path.is_file()} == pages


REGISTERED = ("docs/experiments/think-as-locals.md", "docs/experiments/distillation.md")
NEVER_INSTALLED = ("docs/review/", "docs/api/", *REGISTERED)
"""Reviewers install nothing, and a registered experiment's page is not changed."""


@pytest.mark.parametrize("name", [name for name in pages() if not name.startswith(NEVER_INSTALLED)])
def test_every_page_says_how_to_install(name: str) -> None:
    """As a line that ``make_reference.py`` writes, or as a link to the page that has all of them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- install: " in text or "install.md)" in text or name == "docs/install.md"


def test_the_api_pages_have_every_public_module() -> None:
    """A module is public where it has an ``__all__`` and no part of its path begins with an underscore."""
    text = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^(?:# |## )(\S+)$", text, flags=re.MULTILINE))
    public = set()
    for path in (ROOT / "packages").glob("*/src/**/*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts[3:]).removesuffix(".__init__")
        if "._" not in name and re.search(r"^__all__\b", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            public.add(name)
    assert len(public) > 100
    assert public == shown


def test_outputs_fit_their_documented_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the commands print is what the schemas in docs/reference/schemas allow."""
    jsonschema = pytest.importorskip("jsonschema", reason="comes with altair")
    run = str(tmp_path / "run")
    (tmp_path / "points.csv").write_text("scorer,benchmark,downstream\na,1,2\nb,2,3\nc,3,3\n")
    commands = [
        ["run", "--data", "carb-seed", "--limit", "20", "--scorer", "baseline:length", "baseline:random", "--out", run],
        ["run", "--data", "carb-seed", "--scorer", "baseline:length", "--out", run, "--dry-run"],
        ["report", run, "--json", "-"],
        ["compare", run],
        ["validity", str(tmp_path / "points.csv")],
        ["failures", run, "--scorer", "baseline:length"],
        ["doctor"],
        ["data", "list"],
        ["data", "info", "carb-seed"],
        ["data", "validate", "carb-seed", "--form-only"],
        ["data", "split", "carb-seed", "--out", str(tmp_path / "parts")],
        ["data", "export", "carb-seed", "--out", str(tmp_path / "pairs.jsonl")],
        ["data", "contamination", "--train", str(tmp_path / "points.csv.txt")],
    ]
    (tmp_path / "points.csv.txt").write_text("nothing\n")
    seen = set()
    for command in commands:
        assert main([*command, *([] if "--json" in command else ["--json"])]) == 0, command
        printed = json.loads(capsys.readouterr().out)
        name = printed["schema"].replace("/", "-")
        schema = json.loads((DOCS / "reference" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
        jsonschema.validate(printed, schema)
        seen.add(name)
    assert len(seen) == len(commands)


def test_names_that_moved_are_where_the_page_says() -> None:
    page = (DOCS / "moved.md").read_text(encoding="utf-8").partition("\n## One item")[0]
    now = [row.split("|")[2] for row in page.splitlines() if row.startswith("| `")]
    names = [name for cell in now for name in re.findall(r"`((?:carb_\w+|tal_rlvr)\.[\w.]+)`", cell)]
    assert len(names) > 30
    for name in names:
        module, _, last = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), last), name
