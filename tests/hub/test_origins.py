import dataclasses
import gc

from awm_hub.hub import origins


def test_an_environment_has_the_revision_it_was_read_from_and_a_changed_copy_has_none(renamed):
    environment = renamed("a_1")
    assert origins.revision_of(environment) is None
    origins.remember_revision(environment, "c0ffee")
    assert origins.revision_of(environment) == "c0ffee"
    assert origins.revision_of(dataclasses.replace(environment, rules="Others.")) is None


def test_nothing_is_remembered_of_environments_that_are_gone(renamed):
    before = len(origins._revisions)
    origins.remember_revision(renamed("a_1"), "c0ffee")
    gc.collect()
    assert len(origins._revisions) == before
