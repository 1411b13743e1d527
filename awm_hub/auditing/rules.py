"""The rules of the audit, each with what it means and what to do.

`docs/audit.md` gives an example of each; a test compares the page with this table. An `error` makes rewards or calls
wrong, a `warning` may, an `info` is worth a look.
"""

from dataclasses import dataclass

SEVERITIES = ("error", "warning", "info")
"""The most severe first."""

AUDIT_VERSION = 2
"""Grows whenever the same environment may get other findings: kept results of another version are not taken over."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that the audit looks for."""

    id: str
    severity: str
    meaning: str
    next_step: str


def _table(*rules: tuple[str, str, str, str]) -> dict[str, Rule]:
    return {name: Rule(id=name, severity=s, meaning=m, next_step=n) for name, s, m, n in rules}


RULES = _table(
    # the record
    ("does_not_load", "error", "the code cannot be loaded in the sandbox", "mend the code, then pack it again"),
    ("schema_error", "error", "a statement of the schema fails", "mend the statement"),
    ("seed_error", "error", "rows of the sample data do not load", "mend the rows, or leave them out"),
    ("foreign_key", "error", "a row refers to one that is not there", "add the row that it refers to"),
    ("image_differs", "error", "the database is not what schema and sample data give", "pack it again"),
    ("hash_differs", "error", "the content hash is not that of the content", "pack it again"),
    ("toolset_differs", "error", "the stated tools are not those of the code", "pack it again"),
    ("dropped_tool", "error", "an operation is replaced by another one with its path", "give each its own path"),
    ("shadowed_tool", "error", "calls of a tool reach an earlier route", "declare the closer path first"),
    ("hidden_state", "error", "the code keeps state outside its database", "keep all state in tables"),
    ("largest_rowid", "error", "a table holds the largest id: new rows get random ones", "use smaller ids"),
    # tools
    ("tool_fault", "error", "a call with plausible arguments is a fault", "handle the case, or raise a refusal"),
    ("tool_never_answers", "error", "no call of a tool was answered", "see that seed and code fit together"),
    ("tool_untried", "warning", "every call of a tool was refused", "give its schema examples, or a task that uses it"),
    ("fuzz_fault", "error", "odd but valid arguments are a fault", "check the argument, and refuse it"),
    ("false_effect", "error", "a tool that is said to read tries to write", "pack it again, or mend the tool"),
    ("dangling_write", "warning", "calls leave rows that refer to nothing", "check that the row exists before writing"),
    ("format_drift", "warning", "a tool stores dates in another form than the sample data", "store one form"),
    ("nondeterministic", "error", "the same calls give other results or databases", "use the clock and randomness"),
    ("instances_mix", "error", "two instances in turn do not behave as one alone", "keep all state in tables"),
    ("restore_inexact", "error", "a restored instance behaves otherwise", "keep all state in tables"),
    ("reset_inexact", "error", "a reset instance is not as new", "keep all state in tables"),
    ("uncovered_code", "info", "no call reached most of a tool", "write tasks or examples that reach it"),
    ("behaviour_changed", "warning", "a tool does otherwise than in the baseline", "see that this was meant"),
    # what tools answer
    ("filter_ignored", "error", "a filter changes nothing", "apply the parameter in the query"),
    (
        "filter_mismatch",
        "error",
        "a filter gives rows that do not fit it, or leaves out some that do",
        "mend the query",
    ),
    ("bound_wrong", "error", "a bound is not inclusive where it says so, or the reverse", "compare with <= or >="),
    ("limit_wrong", "error", "a limit gives another number of rows", "mend the limit"),
    ("range_wrong", "error", "a value of the stated range is refused, or one beyond it accepted", "mend the check"),
    ("foreign_rows", "error", "an answer holds rows that belong to another owner", "mend the condition of the query"),
    ("row_contradicts", "error", "an answer's row differs from the table's", "mend the query"),
    ("answer_constant", "warning", "a count or list is the same for all that is asked for", "see that it asks for one"),
    ("broken_link", "error", "a call links rows whose owners differ", "check that both belong together"),
    # tasks
    ("no_verifier", "error", "nothing can judge a task", "add a solution, a decision or signals"),
    ("verifier_fails", "error", "a verifier raises or returns nothing usable", "mend the verifier"),
    ("noop_passes", "error", "doing nothing completes a task", "let the decision ask for the change"),
    ("seed_satisfies", "error", "the sample data already is as the task wants it", "change the seed or the task"),
    (
        "solution_fails",
        "error",
        "the reference solution does not complete the task",
        "mend the solution or the decision",
    ),
    ("answer_differs", "error", "answer_sql gives another answer after the solution", "mend the answer or the query"),
    ("answer_unseen", "warning", "no result of the solution shows the answer", "add the call that shows it"),
    ("equivalent_rejected", "error", "an attempt as right as the solution is rejected", "widen the decision"),
    ("mutant_survives", "warning", "an attempt with a mistake is accepted", "let the decision check it"),
    (
        "mutants_below_goal",
        "error",
        "fewer than 95 % of the mutants are rejected",
        "mend the decisions of the survivors",
    ),
    ("signals_blind", "warning", "signals are the same though the database differs", "report what differs"),
    ("ungrounded", "warning", "an argument of the solution comes from nowhere", "say it in the task, or add a call"),
    (
        "literal_unknown",
        "info",
        "a text that the instruction quotes is nowhere in the data",
        "see that it is a new one",
    ),
    ("matches_nothing", "warning", "a search of the solution finds nothing", "correct the text that is searched"),
)
