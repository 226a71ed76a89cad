"""Adapters from public data sets and file formats to sets, candidate pools and reference snippets."""

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
from carb_data.sources.export import export
from carb_data.sources.models import CandidatePool, PoolCandidate, Reference, Row, Skip

__all__ = [
    "BuildReport",
    "CandidatePool",
    "Names",
    "Options",
    "PoolCandidate",
    "Reference",
    "Row",
    "RowCount",
    "Skip",
    "Source",
    "Sources",
    "build",
    "export",
    "parse_options",
    "rows",
    "sources",
]
