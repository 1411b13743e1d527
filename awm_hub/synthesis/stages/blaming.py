"""Who can mend what the audit finds: each of its rules belongs to a stage.

The audit speaks to somebody who packs an environment by hand; here its findings become problems that a model gets to
read. Most rules about tools are for the code to mend. Rules about attempts at tasks are for the verification, since the
reference solution has been found right by running it; what tasks presuppose is for the sample data to hold.
"""

import re
from collections.abc import Mapping

from awm_hub.auditing import RULES, Finding
from awm_hub.synthesis.problems import Problem

_RULES_OF_STAGE = {
    "database": "schema_error foreign_key image_differs",
    "sample_data": "seed_error largest_rowid seed_satisfies literal_unknown matches_nothing tool_untried",
    "code": "does_not_load hash_differs toolset_differs dropped_tool shadowed_tool hidden_state tool_fault"
    " tool_never_answers fuzz_fault false_effect dangling_write format_drift nondeterministic"
    " instances_mix restore_inexact reset_inexact uncovered_code behaviour_changed filter_ignored filter_mismatch"
    " bound_wrong limit_wrong range_wrong foreign_rows row_contradicts answer_constant broken_link",
    "verification": "no_verifier verifier_fails noop_passes answer_differs equivalent_rejected mutant_survives"
    " mutants_below_goal signals_blind",
    "solution": "solution_fails answer_unseen ungrounded",
}
STAGE_OF_RULE: Mapping[str, str] = {rule: stage for stage, rules in _RULES_OF_STAGE.items() for rule in rules.split()}
"""Rule of the audit → the stage that can mend what it finds."""
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_MISSING_ROW = "names a row that"
"""How the build tells of a row whose parent is not there; other findings on foreign keys are about the schema."""


_STEPS = {"tool_untried": "; add rows in the state that it needs, and change nothing that a task depends on"}
"""Next steps that are others here than for the author of a folder."""


def problem_of(finding: Finding) -> Problem:
    """A finding as a problem; an `info` becomes a warning."""
    stage = STAGE_OF_RULE[finding.rule]
    if finding.rule == "foreign_key" and _MISSING_ROW in finding.message:
        stage = "sample_data"
    known = RULES[finding.rule]
    # steps that speak of packing again are for people
    step = _STEPS.get(finding.rule) or ("" if re.search(r"\bpack\b", finding.next_step) else f"; {finding.next_step}")
    return Problem(
        stage=stage,
        rule=finding.rule,
        subject=finding.subject,
        message=steady(f"{known.meaning}{step}: {finding.message}"),
        severity="error" if finding.severity == "error" else "warning",
    )


def steady(message: str) -> str:
    """A message without what differs from run to run: addresses of objects."""
    return _ADDRESS.sub("0x…", message)
