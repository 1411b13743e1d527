"""Opinions are kept by content, and a damaged file costs no more than a request."""

from awm_hub.judging.keeping import KeptOpinions
from awm_hub.judging.opinions import Opinion
from awm_hub.trajectory import Outcome

ONE = Opinion(outcome=Outcome.COMPLETED, reasoning="Done.", confidences={str(o): 0.25 for o in Outcome})


def test_a_folder_outlives_the_object(tmp_path) -> None:
    KeptOpinions(tmp_path / "deep" / "er").keep("k", ONE)
    assert KeptOpinions(tmp_path / "deep" / "er").get("k") == ONE
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["k.json"]


def test_memory_alone_forgets_with_the_object() -> None:
    kept = KeptOpinions()
    kept.keep("k", ONE)
    assert kept.get("k") == ONE
    assert KeptOpinions().get("k") is None


def test_a_damaged_or_foreign_file_counts_as_none(tmp_path) -> None:
    for name, text in (("cut", '{"outcome": "COMP'), ("foreign", "{}"), ("empty", ""), ("list", "[]")):
        (tmp_path / f"{name}.json").write_text(text)
        assert KeptOpinions(tmp_path).get(name) is None
