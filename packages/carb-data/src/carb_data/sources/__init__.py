"""Adapters from public data sets and tables to sets: the folder ``declarations`` holds one file for each."""

from carb_data.sources.source_build import BuildReport, RowCount, build, rows
from carb_data.sources.source_interface import Names, Skip, Source
from carb_data.sources.source_registry import sources

__all__ = [
    "BuildReport",
    "Names",
    "RowCount",
    "Skip",
    "Source",
    "build",
    "rows",
    "sources",
]
