"""What makes a data set believable: texts in their language, no copies, no shortcut to the answer, balance."""

from carb_data.checks.check import check
from carb_data.checks.report import CheckReport, Finding, SetCount

__all__ = ["CheckReport", "Finding", "SetCount", "check"]
