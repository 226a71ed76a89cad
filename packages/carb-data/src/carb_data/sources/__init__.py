"""Adapters from public data sets and tables to sets."""

from carb_data.sources.base import (
    BuildReport,
    Names,
    Options,
    RowCount,
    Source,
    Sources,
    build,
    parse_options,
    rows,
    sources,
)
from carb_data.sources.models import Reference, Skip

__all__ = [
    "BuildReport",
    "Names",
    "Options",
    "Reference",
    "RowCount",
    "Skip",
    "Source",
    "Sources",
    "build",
    "parse_options",
    "rows",
    "sources",
]
