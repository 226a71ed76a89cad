"""What makes a data set believable: attacks from the answers alone that must fail, and the checks of a fact bank."""

from carb_data.audit.attack import audit
from carb_data.audit.report import Attack, AuditReport, WorstSet

__all__ = ["Attack", "AuditReport", "WorstSet", "audit"]
