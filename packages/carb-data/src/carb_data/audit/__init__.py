"""What makes a data set believable: attacks from the answers alone that must fail, and the checks of a fact bank."""

from carb_data.audit.attacks import Attack, AuditReport, audit

__all__ = ["Attack", "AuditReport", "audit"]
