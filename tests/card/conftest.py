"""Facts of environments like `notes`."""

from collections.abc import Callable
from typing import Any

import pytest

from awm_hub.card import EnvironmentFacts, facts_of
from awm_hub.environment import Environment


@pytest.fixture(scope="session")
def facts(renamed: Callable[..., Environment]) -> Callable[..., EnvironmentFacts]:
    """Gives the facts of an environment with this id, other fields as given."""

    def make(name: str, **changes: Any) -> EnvironmentFacts:
        return facts_of(renamed(name, **changes))

    return make
