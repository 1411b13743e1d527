"""Which revision of a dataset an environment was read from.

An environment is a row, and a row does not know the commit it lies in; whoever records what happened in it wants to.
`load` remembers the commit of each environment that it reads, for as long as the environment is alive. A copy that was
changed is no longer what that revision holds, and has none.
"""

import weakref

from awm_hub.environment import Environment

_revisions: dict[int, tuple["weakref.ref[Environment]", str]] = {}
"""By identity: environments hold dictionaries, and have no hash."""


def remember_revision(environment: Environment, revision: str) -> None:
    """Keep the commit that an environment was read from."""
    key = id(environment)
    _revisions[key] = (weakref.ref(environment, lambda _: _revisions.pop(key, None)), revision)


def revision_of(environment: Environment) -> str | None:
    """The commit that `load` read this environment from; None for one that is not from the Hub."""
    reference, revision = _revisions.get(id(environment), (None, None))
    return revision if reference is not None and reference() is environment else None
