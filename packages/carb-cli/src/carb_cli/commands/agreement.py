"""``carb agreement``: do raters agree, beyond what chance gives them?"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.options import Confidence, Json
from carb_cli.output import Output
from carb_data import CarbError
from carb_metrics import Agreement
from carb_metrics import agreement as agree


class AgreementOutput(Output):
    """Output of ``carb agreement --json``."""

    schema_: Literal["carb.agreement/1"] = Field(default="carb.agreement/1", alias="schema")
    file: str
    raters: tuple[str, ...]
    agreement: Agreement


def agreement(
    file: Path,
    *,
    rater: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    cluster: str | None = None,
    level: Literal["nominal", "ordinal", "interval"] = "nominal",
    confidence: Confidence = 0.95,
    json: Json = False,
) -> None:
    """Show how far raters agree: percent, Cohen's and Fleiss' kappa, Krippendorff's alpha and Gwet's AC1.

    For example:

        carb agreement ratings.csv --cluster source_item

    Parameters
    ----------
    file
        CSV file in UTF-8 with a row per item and a column per rater; an empty cell is a missing rating.
    rater
        Column of a rater; may be repeated. By default all columns but `item`, `item_id` and the cluster are raters.
    cluster
        Column with the source item of each row, where several rows come from one; by default each row is independent.
    level
        Level of measurement for Krippendorff's alpha.
    """
    header, rows = _read(file)
    raters = list(rater) or [name for name in header if name not in ("item", "item_id", cluster)]
    missing = [name for name in (*raters, *([cluster] if cluster else [])) if name not in header]
    if missing or len(raters) < 2:
        lacking = f"lacks the column {', '.join(missing)}" if missing else "has fewer than two columns of raters"
        raise CarbError(f"{file} {lacking}. It has the columns {', '.join(header)}.")
    ratings = [[_value(row[name], level) for name in raters] for row in rows]
    clusters = None if cluster is None else [row[cluster] or f"\0{i}" for i, row in enumerate(rows)]
    found = AgreementOutput(
        file=str(file),
        raters=tuple(raters),
        agreement=agree(ratings, level=level, confidence=confidence, clusters=clusters),
    )
    if json:
        found.print()
        return
    part = found.agreement
    names = {"percent": "percent", "cohen": "Cohen's kappa", "fleiss": "Fleiss' kappa"}
    names |= {"krippendorff": "Krippendorff's alpha", "gwet": "Gwet's AC1"}
    shown = []
    for field, name in names.items():
        value = getattr(part, field)
        limits = f"{display.number(value.low)} to {display.number(value.high)}" if value.low is not None else ""
        shown.append((name, display.number(value.estimate), limits))
    display.table(
        f"{part.items} items with at least two ratings, {part.raters} raters", ["measure", "value", "interval"], shown
    )


def _read(file: Path) -> tuple[list[str], list[dict[str, str]]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            return header, [{name: (row.get(name) or "").strip() for name in header} for row in reader]
    except OSError as error:
        raise CarbError(f"Cannot read {file}: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise CarbError(f"{file} is not a CSV file in UTF-8: {error}.") from None


def _value(text: str, level: str) -> Any:
    if not text:
        return None
    if level == "nominal":
        return text
    try:
        return float(text)
    except ValueError:
        raise CarbError(f"'{text}' is not a number, which level {level} needs.") from None
