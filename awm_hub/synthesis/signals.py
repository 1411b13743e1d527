"""What `signals_<slug>` of a draft says of an ending, and endings that it must object to.

Its code is a model's and runs in a sealed fork; whatever it does there, what comes back is a list of problems or a
failure in words.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from awm_hub.canonical import to_json
from awm_hub.errors import LoadError, SealError
from awm_hub.runtime import jobs
from awm_hub.runtime.limits import Limits
from awm_hub.synthesis.building import steady
from awm_hub.synthesis.drafts import Draft
from awm_hub.trajectory import StateDiff, TableDiff

_MOST_PROBLEMS, _LONGEST, _MOST_TOLD = 20, 400, 1_500
"""Problems that are kept, and characters of one and of all."""
_MOST_TRIED = 40


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What a task's signals say of an ending."""

    problems: tuple[str, ...] | None
    """Empty where the ending is right; None where there is a failure."""
    failure: str = ""
    """Why there is no list of problems."""
    is_stopped: bool = False
    """The function overran its deadline."""

    @property
    def told(self) -> str:
        """The problems in one text."""
        return _cut("; ".join(self.problems or ()), _MOST_TOLD)


@dataclass(frozen=True, kw_only=True)
class Stray:
    """A database that was changed where no task asks for it."""

    image: bytes
    changes: StateDiff
    told: str
    """What was changed, in words."""


async def run_signals(
    draft: Draft,
    slug: str,
    *,
    initial: bytes,
    final: bytes,
    changes: StateDiff | None = None,
    calls_count: int = 0,
    trust_remote_code: bool = False,
) -> Signals:
    """Run a task's signals on an ending.

    Raises:
        SealError: this machine cannot seal.
    """
    try:
        found = await jobs.verify(
            code=draft.verifier_module,
            function=f"signals_{slug}",
            initial=initial,
            final=final,
            changes=changes or StateDiff(),
            answer=None,
            clock=draft.clock,
            calls_count=calls_count,
            trust_remote_code=trust_remote_code,
        )
    except SealError:
        raise
    except jobs.VerifierError as error:
        cause = error.__cause__
        message = steady(str(getattr(cause, "message", "") or cause or error.message))
        if message == "deadline" or getattr(cause, "reason", "") == "deadline":
            told = f"it did not end within {Limits().load_s:.0f} seconds"
            return Signals(problems=None, failure=told, is_stopped=True)
        return Signals(problems=None, failure=message)
    if not isinstance(found, dict) or not isinstance(found.get("problems"), list):
        return Signals(problems=None, failure='it returns no dict with a list "problems"')
    wrong = next((p for p in found["problems"] if not isinstance(p, str)), None)
    if wrong is not None:
        return Signals(problems=None, failure=f"problems holds {to_json(wrong)[:200]}, which is no text")
    problems = [_cut(problem, _LONGEST) for problem in found["problems"]]
    rest = [f"and {len(problems) - _MOST_PROBLEMS} more"] if len(problems) > _MOST_PROBLEMS else []
    return Signals(problems=(*problems[:_MOST_PROBLEMS], *rest))


async def stray_change(
    image: bytes, clock: dt.datetime, *, made: StateDiff | None = None, trust_remote_code: bool = False
) -> Stray | None:
    """The database without a row that was there from the beginning, of the first table where one can go.

    Args:
        image: The ending to change.
        clock: The environment's.
        made: Changes that led to this ending; none of their rows is taken away.
        trust_remote_code: Run without a seal where this machine has none.

    Returns:
        None where no row can go.
    """
    made = made or StateDiff()
    tables = await jobs.dump(image, max_rows=0, trust_remote_code=trust_remote_code)
    names = sorted((name for name, table in tables.items() if table["total"]), key=lambda name: name in made)
    for name in names[:_MOST_TRIED]:
        quoted = '"' + name.replace('"', '""') + '"'
        which = "min" if name in made else "max"  # new rows come last
        statement = f"DELETE FROM {quoted} WHERE rowid = (SELECT {which}(rowid) FROM {quoted})"
        try:
            changed = await jobs.prepare_image(image, [statement], clock, trust_remote_code=trust_remote_code)
        except SealError:
            raise
        except LoadError:
            continue
        changes = await jobs.state_diff(image, changed, trust_remote_code=trust_remote_code)
        if changes and not any(_is_made(row, made[table]) for table in changes for row in changes[table].removed):
            told = f"the {'first' if name in made else 'last'} row of {name} is deleted besides"
            return Stray(image=changed, changes=changes, told=told)
    return None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _is_made(row: Mapping[str, Any], made: TableDiff) -> bool:
    """Whether a row is one that was added or changed; volatile columns are not in those."""
    rows = (*made.added, *(change.after for change in made.changed))
    return any(all(row.get(name) == value for name, value in other.items()) for other in rows)
