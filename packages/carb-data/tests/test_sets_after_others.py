"""Sets of a table that are made after an earlier one are those that full validation makes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data.models import BonSet
from small_sets import read_rows

LETTERS = st.characters(categories=["L", "N", "P"], exclude_characters="*_&")
TEXTS = st.text(LETTERS, min_size=3, max_size=12).filter(
    lambda text: (
        text.strip("[{(\"'") == text
        and not text.isdigit()
        and text.strip("#<>").casefold() not in {"nan", "n/a", "na", "null", "nv"}
    )
)
ROWS = st.tuples(TEXTS, st.lists(TEXTS, min_size=2, max_size=4, unique_by=str.casefold))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=2, max_size=8),
    culture=st.sampled_from(["thai", "german", "japanese"]),
    language=st.sampled_from(["en", "de"]),
    topic=st.sampled_from(["", "food", "work"]),
    name=st.sampled_from(["r", "é", "a\u00a0r", "a\u200br", "a\U000e0001r"]),
)
def test_a_set_after_an_earlier_one_is_a_validated_one(rows, culture, language, topic, name):
    """The first row of a kind is validated; later ones change its texts alone."""
    said = {"culture": culture, "domain": "values", "language": language}
    lines = []
    for number, (prompt, (chosen, *rejected)) in enumerate(rows):
        row = {"id": f"{name}{number}", "prompt": prompt, "chosen": chosen, "rejected": rejected}
        lines.append(json.dumps(row | said | {"topic": topic}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl")
        path.write_text("\n".join(lines), encoding="utf-8")
        together = read_rows(path)
        assert [item.prompt for item in together] == [prompt for prompt, _ in rows]
        assert [item.id for item in together] == [f"{name}{number}" for number in range(len(rows))]
        for line, item in zip(lines, together, strict=True):
            path.write_text(line, encoding="utf-8")
            (alone,) = read_rows(path)  # the first set of its table
            assert item == alone
            assert item == BonSet.model_validate(item.model_dump())
            assert item.model_dump_json() == alone.model_dump_json()
            assert item.model_fields_set == alone.model_fields_set
            for answer, other in zip(item.responses, alone.responses, strict=True):
                assert answer.model_fields_set == other.model_fields_set
