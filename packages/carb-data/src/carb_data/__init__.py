"""Typed data model, native seed set, builders and checks for cultural Best-of-N benchmarks."""

from carb_data.dataset import Dataset, content_hash, load
from carb_data.errors import CarbError, DataError, MissingExtraError, Problem, install_line, require
from carb_data.facts import Fact
from carb_data.family import Family, expand_family
from carb_data.home import HomeLine, home_line
from carb_data.journal import write_whole
from carb_data.models import (
    BonSet,
    Citation,
    Conversation,
    Culture,
    Domain,
    Frozen,
    Kind,
    Message,
    Perturbation,
    Provenance,
    Response,
    Role,
    Votes,
    as_text,
)
from carb_data.overlap import ContaminationReport, check_contamination
from carb_data.registry import Registry, UnknownCultureError, cultures, is_main
from carb_data.table import ScoreTable
from carb_data.validation import closest, read_file, read_options, validate

__all__ = [
    "BonSet",
    "CarbError",
    "Citation",
    "ContaminationReport",
    "Conversation",
    "Culture",
    "DataError",
    "Dataset",
    "Domain",
    "Fact",
    "Family",
    "Frozen",
    "HomeLine",
    "Kind",
    "Message",
    "MissingExtraError",
    "Perturbation",
    "Problem",
    "Provenance",
    "Registry",
    "Response",
    "Role",
    "ScoreTable",
    "UnknownCultureError",
    "Votes",
    "as_text",
    "check_contamination",
    "closest",
    "content_hash",
    "cultures",
    "expand_family",
    "home_line",
    "install_line",
    "is_main",
    "load",
    "read_file",
    "read_options",
    "require",
    "validate",
    "write_whole",
]
