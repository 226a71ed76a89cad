"""Adapters from public data sets and file formats to sets, candidate pools and reference snippets."""

from carb_data.sources.base import (
    BuildReport,
    Count,
    Names,
    Options,
    Source,
    Sources,
    build,
    parse_options,
    rows,
    sources,
)
from carb_data.sources.export import export
from carb_data.sources.models import Candidate, CandidatePool, Reference, Row, Skip

__all__ = [
    "BuildReport",
    "Candidate",
    "CandidatePool",
    "Count",
    "Names",
    "Options",
    "Reference",
    "Row",
    "Skip",
    "Source",
    "Sources",
    "build",
    "export",
    "parse_options",
    "rows",
    "sources",
]
