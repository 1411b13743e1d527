"""The plot of a run is one SVG that holds no text of others as markup."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from rollouts.records import DONE, FAILED, rollout

from awm_hub.errors import UsageError
from awm_hub.rollouts import chart, measure, write_chart

NAMESPACE = "{http://www.w3.org/2000/svg}"


def test_each_measure_has_a_bar_as_long_as_its_share_and_says_so(tmp_path: Path) -> None:
    found = measure([rollout("e_1/t0"), rollout("e_1/t0", 1, FAILED), rollout("e_1/t1", 0, None)])
    write_chart(found.tasks, tmp_path / "plot.svg", title="a run")
    tree = ElementTree.parse(tmp_path / "plot.svg").getroot()
    bars = [float(r.attrib["width"]) for r in tree.iter(f"{NAMESPACE}rect") if r.attrib.get("class") == "bar"]
    assert bars == [190.0, 0.0]
    texts = [t.text for t in tree.iter(f"{NAMESPACE}text")]
    assert texts == ["a run", "e_1/t0", "50.0 % of 2", "e_1/t1", "not scored"]


def test_the_picture_is_as_wide_as_its_longest_texts_need(tmp_path: Path) -> None:
    name = "an_environment_with_a_long_name_1/and_a_task_with_a_name_that_is_just_as_long"
    tree = ElementTree.fromstring(chart(measure([rollout(name)]).tasks, title="t" * 200))
    width = int(tree.attrib["viewBox"].split()[2])
    label, figure = [t for t in tree.iter(f"{NAMESPACE}text") if t.attrib.get("font-weight") is None]
    assert int(label.attrib["x"]) > 8 * len(name)
    assert int(figure.attrib["x"]) + 8 * len("100.0 % of 1") <= width
    assert int(label.attrib["x"]) + 8 * 200 < width


def test_a_file_that_is_called_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not end with \.svg") as found:
        write_chart([], tmp_path / "plot.png")
    assert found.value.next_step == "for instance plot.svg"


def test_hostile_names_stay_text() -> None:
    hostile = '<script>alert(1)</script>/&"'
    svg = chart(measure([rollout(hostile, 0, DONE)]).tasks, title=hostile)
    tree = ElementTree.fromstring(svg)
    assert {e.tag for e in tree.iter()} == {f"{NAMESPACE}{t}" for t in ("svg", "title", "style", "rect", "text")}
