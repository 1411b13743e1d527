"""Auditing: what an environment is worth before anybody trains on it.

An audit runs everything that a row claims: it is built again, every tool is called, instances are compared, and at
every task attempts are made of which it is known whether they should pass. What it finds is a report for people and
programs, and the row's `quality`, by which trainers filter. `awm_hub.auditing.rules` lists all that it looks for.
"""

from awm_hub.auditing.findings import Attempted, AuditedEnvironment, AuditReport, Counts, Finding, Unaudited
from awm_hub.auditing.one import audit_one
from awm_hub.auditing.rules import AUDIT_VERSION, RULES, SEVERITIES, Rule
from awm_hub.auditing.running import audit, audit_async
from awm_hub.auditing.writing import write_quality

__all__ = [
    "AUDIT_VERSION",
    "RULES",
    "SEVERITIES",
    "Attempted",
    "AuditReport",
    "AuditedEnvironment",
    "Counts",
    "Finding",
    "Rule",
    "Unaudited",
    "audit",
    "audit_async",
    "audit_one",
    "write_quality",
]
