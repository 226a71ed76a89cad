"""The examples of the README and of docs/statistics run, and print what is said.

``python packages/carb-metrics/tests/test_metrics_readme.py`` writes what they print into the pages.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parents[2] / "docs" / "statistics"
START = DOCS / "index.md"
PAGES = [README, START, *sorted(set(DOCS.glob("*.md")) - {START})]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def setting():
    """The names with which the pages behind the first one start."""
    namespace = {"__name__": "page"}
    exec(EXAMPLE.search(START.read_text(encoding="utf-8"))[1], namespace)
    return namespace


def run(path):
    """Run a page's examples in one namespace; yields each with what it should and does print."""
    namespace = {"__name__": "page"} if path in (README, START) else setting()
    for code, expected in EXAMPLE.findall(path.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(path), "exec"), namespace)
        yield code, expected, printed.getvalue()


needs_docs = pytest.mark.skipif(not DOCS.is_dir(), reason="no docs beside the packages")


@needs_docs
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_examples_print_what_they_say(path):
    for code, expected, printed in run(path):
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected), code
        # The last digits of a bootstrap depend on the version of numpy and on the processor.
        found, said = ([float(number) for number in NUMBER.findall(text)] for text in (printed, expected))
        assert found == pytest.approx(said, abs=0.02), code


@needs_docs
def test_every_public_function_is_shown():
    import carb_metrics

    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    # Results are explained where the function that returns them is.
    functions = [name for name in carb_metrics.__all__ if name[0].islower()]
    details = {"adjust", "dependent_correlations", "fit_line", "wilson"}
    missing = [name for name in functions if name not in text and name not in details]
    assert not missing


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for code, expected, printed in list(run(page)):
            text = text.replace(f"{code}```\n\n```text\n{expected}```", f"{code}```\n\n```text\n{printed}```")
        page.write_text(text, encoding="utf-8")
