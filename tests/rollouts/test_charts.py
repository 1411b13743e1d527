"""The plot of a run is one SVG that holds no text of others as markup."""

from pathlib import Path
from xml.etree import ElementTree

from rollouts.records import DONE, FAILED, rollout

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


def test_hostile_names_stay_text() -> None:
    hostile = '<script>alert(1)</script>/&"'
    svg = chart(measure([rollout(hostile, 0, DONE)]).tasks, title=hostile)
    tree = ElementTree.fromstring(svg)
    assert {e.tag for e in tree.iter()} == {f"{NAMESPACE}{t}" for t in ("svg", "title", "style", "rect", "text")}
