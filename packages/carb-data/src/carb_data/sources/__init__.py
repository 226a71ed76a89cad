"""Adapters from public data sets and tables to sets: the folder ``declarations`` holds one file for each."""

from carb_data.sources.declaration import Names, Skip, Source
from carb_data.sources.source_build import BuildReport, build, rows, sources

__all__ = [
    "BuildReport",
    "Names",
    "Skip",
    "Source",
    "build",
    "rows",
    "sources",
]
