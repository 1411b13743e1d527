"""A card is made from schema and data, loads as the Hub loads it, and lets no text of a row out of its place."""

import re
from xml.etree import ElementTree

import pytest
import yaml
from markdown_it import MarkdownIt
from planting import ACTING, HOSTILE, Page

import awm_hub
from awm_hub import schema
from awm_hub.card import build_card, carried, facts_of
from awm_hub.card.page import fill
from awm_hub.environment import Provenance, Quality, TaskQuality
from awm_hub.errors import DataError

REPO = "awm/envs-1k"
TAGS = {
    "h1", "h2", "p", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "img", "a",
}  # fmt: skip
SVG = {"svg", "title", "desc", "style", "rect", "text"}


def front_matter(readme):
    return yaml.safe_load(readme.split("---\n")[1])


def rendered(readme):
    """The page as the Hub shows it, HTML of the source let through."""
    return Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(readme.split("---\n", 2)[2]))


@pytest.fixture(scope="module")
def bundled():
    return [facts_of(e) for e in awm_hub.load().values()]


def test_the_card_of_the_bundled_set_names_what_it_holds(bundled):
    readme = build_card(bundled, REPO).readme
    tasks = sum(len(e.tasks) for e in bundled)
    assert f"**{len(bundled)} executable tool-use environments with {tasks} tasks and" in readme
    assert all(f"`{e.id}`" in readme for e in bundled)
    assert all(f"| `{c.name}` |" in readme for name in ("environments", "tasks", "index") for c in schema.CONFIGS[name])


def test_the_front_matter_declares_configs_splits_licences_and_the_tags_of_the_hub(facts):
    cc, mit, odd = (Provenance(license=name) for name in ("CC-BY-4.0", "MIT", "ask me"))
    found = [facts("a_1", provenance=cc), facts("garden_1"), facts("c_1", provenance=mit), facts("d", provenance=odd)]
    assert {e.split for e in found} == {"train", "test"}
    data = front_matter(build_card(found, REPO).readme)
    assert data["configs"] == [
        {
            "config_name": name,
            **({"default": True} if name == "environments" else {}),
            "data_files": [{"split": s, "path": f"{name}/{s}-*.parquet"} for s in ("train", "test")],
        }
        for name in ("environments", "tasks")
    ]
    assert data["license"] == ["cc-by-4.0", "mit", "other"]
    assert data["size_categories"] == ["n<1K"]
    assert {"rl-environment", "reinforcement-learning", "tool-use", "mcp", "agent"} <= set(data["tags"])


def test_a_split_that_holds_nothing_is_not_declared(facts):
    (only,) = [e for e in (facts("a_1"), facts("garden_1")) if e.split == "train"]
    readme = build_card([only], REPO).readme
    assert [f["split"] for f in front_matter(readme)["configs"][0]["data_files"]] == ["train"]
    assert "canary" not in readme


def test_the_canary_is_that_of_the_repo(facts):
    found = [facts("a_1"), facts("garden_1")]
    canary = re.compile(r"awm-hub test split canary [0-9a-f-]{36}\n")
    first, again, other = (
        canary.search(build_card(f, r).readme) for f, r in ((found, REPO), (found[::-1], REPO), (found, "a/b"))
    )
    assert first[0] == again[0] != other[0]


def test_equal_data_gives_an_equal_card(facts):
    assert build_card([facts("a_1")], REPO) == build_card([facts("a_1")], REPO)


def test_every_place_of_the_template_is_filled_and_every_plot_is_shown(facts):
    card = build_card([facts("a_1")], REPO)
    template = (carried("dataset_card") / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\[\[(\w+)\]\]", template)) == 16
    assert "[[" not in card.readme
    assert set(rendered(card.readme).values("src")) == set(card.plots)


def test_what_fills_a_place_is_no_template():
    assert fill("[[a]] and [[b]]", {"a": "[[b]]", "b": "{{7*7}}"}) == "[[b]] and {{7*7}}"


def test_a_dataset_without_environments_has_no_card():
    with pytest.raises(DataError, match="without environments"):
        build_card([], REPO)


def test_hostile_text_stays_text_in_card_and_plots(facts, renamed):
    provenance = Provenance(
        source=HOSTILE, source_revision=HOSTILE, generator=HOSTILE, pipeline_version=HOSTILE, license=HOSTILE
    )
    categories = (HOSTILE, "|" + HOSTILE)
    texts = {"title": HOSTILE, "description": HOSTILE, "categories": categories, "provenance": provenance}
    hash_ = renamed("a_1", **texts).content_hash
    quality = Quality(
        audited_hash=hash_,
        audited_by=HOSTILE,
        dropped_tools=(HOSTILE,),
        false_effects=(HOSTILE,),
        tasks=(TaskQuality(id="a_1/x", noop_rejected=False, notes=HOSTILE),),
    )
    hostile = facts("a_1", **texts, quality=quality)
    assert hostile.quality is not None
    card, plain = build_card([hostile], REPO), build_card([facts("a_1")], REPO)
    assert {**front_matter(card.readme), "license": None} == {**front_matter(plain.readme), "license": None}
    assert front_matter(card.readme)["license"] == ["other"]
    assert card.readme.splitlines().count("---") == 2
    page = rendered(card.readme)
    assert set(page.tags) <= TAGS
    assert set(page.values("src")) == set(card.plots)
    assert page.values("href") == rendered(plain.readme).values("href")
    assert "<script>document.title='owned'</script><img" in page.text
    rows = [line for line in card.readme.splitlines() if line.startswith("| ")]
    head = next(i for i, line in enumerate(rows) if line.startswith("| source"))
    assert rows[head].count(" | ") == rows[head + 2].count(" | ") == 4
    assert "{{7" not in card.readme
    for text in card.files.values():
        assert ACTING.findall(text) == []
        text.encode()
    for plot in card.plots.values():
        tree = ElementTree.fromstring(plot)
        assert {e.tag.partition("}")[2] for e in tree.iter()} <= SVG
        assert {name for e in tree.iter() for name in e.attrib} <= {
            "viewBox", "width", "height", "role", "class", "x", "y", "rx", "text-anchor", "fill",
        }  # fmt: skip
