"""Typed data model, native seed set, builders and checks for cultural Best-of-N benchmarks."""

from carb_data.collector import uncollected
from carb_data.dataset import Dataset, content_hash, load
from carb_data.errors import (
    HUB_ANSWERS_WITHIN,
    CarbError,
    DataError,
    MissingExtraError,
    Problem,
    install_line,
    require,
)
from carb_data.facts import Fact
from carb_data.family import Family, expand_family
from carb_data.home import HomeLine, home_line
from carb_data.journal import DiskError, write_whole
from carb_data.language import check_language, in_language, language_tag, same_language
from carb_data.models import (
    UNSPECIFIED,
    BonSet,
    Citation,
    Conversation,
    Culture,
    CultureId,
    Domain,
    Frozen,
    Kind,
    LanguageTag,
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
    "HUB_ANSWERS_WITHIN",
    "UNSPECIFIED",
    "BonSet",
    "CarbError",
    "Citation",
    "ContaminationReport",
    "Conversation",
    "Culture",
    "CultureId",
    "DataError",
    "Dataset",
    "DiskError",
    "Domain",
    "Fact",
    "Family",
    "Frozen",
    "HomeLine",
    "Kind",
    "LanguageTag",
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
    "check_language",
    "closest",
    "content_hash",
    "cultures",
    "expand_family",
    "home_line",
    "in_language",
    "install_line",
    "is_main",
    "language_tag",
    "load",
    "read_file",
    "read_options",
    "require",
    "same_language",
    "uncollected",
    "validate",
    "write_whole",
]
