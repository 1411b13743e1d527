"""Plots are small SVG files that say in words what they show."""

from xml.etree import ElementTree

from awm_hub.card.charts import Bar, chart, counts


def test_bars_are_as_long_as_their_share():
    found = ElementTree.fromstring(chart("Sizes", counts([("small", 1), ("large", 4)])))
    bars = [float(e.attrib["width"]) for e in found.iter() if e.attrib.get("class") == "bar"]
    assert bars == [100.0, 400.0]
    told = next(e.text for e in found.iter() if e.tag.endswith("desc"))
    assert told == "small: 1; large: 4"


def test_markup_and_what_xml_cannot_hold_stay_text():
    made = chart("<b>", [Bar(name="</text>&\ufffe\x00", share=0.5, told="\ud800")])
    texts = [e.text for e in ElementTree.fromstring(made).iter() if e.tag.endswith("text")]
    assert texts == ["<b>", "</text>&\N{REPLACEMENT CHARACTER}\\x00", "\\ud800"]
