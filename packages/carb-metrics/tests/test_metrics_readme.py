"""The examples of the README run, and print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def run(text):
    """Run all examples in one namespace; yields each with what it should and does print."""
    namespace = {"__name__": "readme"}
    for code, expected in EXAMPLE.findall(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), namespace)
        yield code, expected, printed.getvalue()


def test_examples_print_what_they_say():
    examples = list(run(README.read_text(encoding="utf-8")))
    assert len(examples) > 10
    for code, expected, printed in examples:
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected), code
        # The last digits of a bootstrap depend on the version of numpy and on the processor.
        found, said = ([float(number) for number in NUMBER.findall(text)] for text in (printed, expected))
        assert found == pytest.approx(said, abs=0.02), code


def test_every_public_function_is_shown():
    import carb_metrics

    text = README.read_text(encoding="utf-8")
    # Results are explained where the function that returns them is.
    functions = [name for name in carb_metrics.__all__ if name[0].islower()]
    details = {"adjust", "dependent_correlations", "fit_line", "wilson"}
    missing = [name for name in functions if name not in text and name not in details]
    assert not missing
