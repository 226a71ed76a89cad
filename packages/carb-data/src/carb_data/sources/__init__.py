"""Adapters from public data sets and tables to sets: the folder ``declarations`` holds one file for
each."""

from carb_data.declaration import Names, Skip, Source
from carb_data.sources.source_registry import BuildReport, build, open_source, rows, source_names

__all__ = [
    "BuildReport",
    "Names",
    "Skip",
    "Source",
    "build",
    "open_source",
    "rows",
    "source_names",
]
