"""Pages stand alone, hold no script and show hostile text as text."""

import base64
import hashlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from planting import ACTING, HOSTILE, Page, check_page, planted

from awm_hub.environment import Environment
from awm_hub.rollouts import Rollout
from awm_hub.runtime import sync
from awm_hub.trajectory import StateDiff, TableDiff, Trajectory
from awm_hub.viewing import Unreadable, html_page, rollout_document, row_changes, run_document, survey
from awm_hub.viewing.document import Cell, Data, Document, Facts, Grid, Label, Prose, Rows, Section
from awm_hub.viewing.page import is_own_page

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
KEPT = ("outcome", "environment_hash", "database_delta", "type")
"""Fields that are no free text: with another value there, a file is no trajectory."""


@pytest.fixture(scope="session")
def hostile(trajectory: Trajectory) -> Trajectory:
    """The rollout with hostile text in every field that holds any."""
    return Trajectory.from_dict(planted(trajectory.to_dict(), KEPT))


@pytest.fixture(scope="session")
def hostile_page(hostile: Trajectory) -> str:
    return html_page(rollout_document(hostile, name=HOSTILE), up=HOSTILE)


def test_hostile_text_in_every_field_becomes_no_element_and_no_attribute(hostile_page: str) -> None:
    page = check_page(hostile_page)
    shown = page.text.count("<script>document.title='owned'</script>")
    assert shown > 30
    assert "{{7*7}}" in page.text
    assert "\\x1b]0;owned\\x07" in page.text


def test_hostile_names_of_objects_columns_and_tables_are_text(changed: Callable[..., Trajectory]) -> None:
    row = {HOSTILE: HOSTILE}
    diff = StateDiff({HOSTILE: TableDiff(added=(row,), removed=(row,))})
    blocks = (
        Rows(diff=diff, label=HOSTILE), Data(value={HOSTILE: 1}, label=HOSTILE), Data(value={HOSTILE: {HOSTILE: [1]}}),
        Facts(pairs=((HOSTILE, HOSTILE),)), Prose(text=HOSTILE * 40), Section(title=HOSTILE, is_folded=True),
        Grid(label=HOSTILE, columns=(HOSTILE,), rows=((Cell(text=HOSTILE, tone=HOSTILE, link=HOSTILE),),)),
    )  # fmt: skip
    document = Document(title=HOSTILE, labels=(Label(text=HOSTILE),), blocks=blocks)
    check_page(html_page(document, up="javascript:alert(1)"))


def test_a_hostile_list_is_a_list(hostile: Trajectory) -> None:
    rollouts = {HOSTILE: Rollout(id=HOSTILE, number=0, trajectory=hostile)}
    found = replace(survey(rollouts, remedy=HOSTILE), links={HOSTILE: HOSTILE})
    damaged = Unreadable(id=HOSTILE, path=HOSTILE, reason=HOSTILE)
    page = check_page(html_page(run_document(HOSTILE, replace(found, unreadable=(damaged,)))))
    (link,) = page.values("href")
    assert re.fullmatch(r"\./[A-Za-z0-9%/._~-]+", link)


def test_the_policy_allows_the_one_style_and_nothing_else(hostile_page: str) -> None:
    (policy,) = (v for v in Page(hostile_page).values("content") if "default-src" in v)
    style = re.search(r"<style>(.*?)</style>", hostile_page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_a_page_shows_steps_results_rows_and_verdict(trajectory: Trajectory, notes_environment: Environment) -> None:
    changes = sync.run(row_changes, trajectory, notes_environment)
    page = check_page(html_page(rollout_document(trajectory, changes=changes)))
    headings = ["1. edit_note", "2. get_note", "3. get_note", "4. create_note", "Verdict by decision"]
    assert [h for h in headings if h not in page.texts] == []
    assert page.tags.count("ins") == page.tags.count("del") > 0
    assert "no note 99" in page.texts
    assert page.texts.count("added") == 4


def test_headings_go_down_by_one_and_tables_are_named(trajectory: Trajectory) -> None:
    page = check_page(html_page(rollout_document(trajectory)))
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert page.tags.count("table") == page.tags.count("caption") == len(page.values("role")) > 0
    assert page.values("lang") == ["en"]


def test_a_table_under_a_title_of_its_own_is_named_for_screen_readers_only(trajectory: Trajectory) -> None:
    html = html_page(rollout_document(trajectory))
    assert '<caption class="unseen">Broken rules</caption>' in html
    assert check_page(html).texts.count("Broken rules") == 2


def test_a_page_leads_to_those_around_it() -> None:
    page = check_page(html_page(Document(title="x"), up="../index.html", before="a.html", after="c.html"))
    assert page.values("href") == ["./../index.html", "./a.html", "./c.html"]
    assert [text for text in page.texts if text][-4:] == ["all rollouts", "← previous", "next →", "x"]


def test_a_page_of_ours_is_known_by_its_start_and_no_text_makes_one() -> None:
    start = html_page(Document(title="x"))[:200]
    assert is_own_page(start)
    assert not is_own_page("<!doctype html><title>" + start)
    assert not is_own_page("")


def test_tone_is_never_colour_alone() -> None:
    page = check_page(html_page(Document(title="x", labels=(Label(text="ok", tone="good"), Label(text="none")))))
    assert [text for text in page.texts if text.strip()][-2:] == ["✓ ok", "none"]


def test_what_is_too_long_is_cut_and_says_so() -> None:
    rows = StateDiff({"notes": TableDiff(added=tuple({"id": n} for n in range(201)))})
    document = Document(title="x", blocks=(Prose(text="a" * 20_005), Rows(diff=rows)))
    page = check_page(html_page(document))
    assert "… 5 more characters in the file" in page.texts
    assert "… 1 more row in the file" in page.texts


def test_long_values_are_folded_and_short_ones_are_open() -> None:
    long = check_page(html_page(Document(title="x", blocks=(Data(value=list(range(100, 200))),))))
    assert (long.tags.count("details"), "102 lines" in long.texts) == (1, True)
    assert "details" not in check_page(html_page(Document(title="x", blocks=(Data(value=[1, 2]),)))).tags


def test_a_text_and_a_number_look_different() -> None:
    page = check_page(html_page(Document(title="x", blocks=(Data(value={"a": "5", "b": 5}),))))
    assert '"5"' in page.texts
    assert "5" in page.texts


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_runs_nothing_of_it(hostile_page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(hostile_page, encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    page = Page(done.stdout)
    assert not {"script", "img"} & set(page.tags)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1].startswith("&lt;script&gt;")
    assert ACTING.findall(done.stdout) == []
