"""Browse in a real browser: finding an environment among many, and opening other datasets."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from loopback_hub import LoopbackHub
from playground.hostile import ATTACK, hostile
from playground.served import running_playground
from playground.visitor import ENVIRONMENT, Visitor, browser, visitor

import awm_hub
from awm_hub import schema
from awm_hub.environment import Environment
from awm_hub.packing.parquet import write_split
from awm_hub.playground.catalogue import Catalogue, Wanted, read_catalogue
from awm_hub.playground.ui.browse import PAGE

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visitor"]
MANY = 60
PUBLIC, PRIVATE, EVIL = "awm/public-envs", "awm/private-envs", "awm/evil-envs"
TITLE = "Public Library Network"


def written(folder: Path, environments: list[Environment]) -> Path:
    rows = [pa.Table.from_pylist([{**e.to_row(), "split": "train"}], schema=schema.ENVIRONMENTS) for e in environments]
    folder.mkdir()
    write_split(folder, "environments", "train", rows)
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, renamed: Callable[..., Environment]) -> Path:
    """Many small environments, and a large one that is audited."""
    small = [renamed(f"desk_{n}", title=f"Desk {n:02}", categories=(f"kind_{n % 4}",)) for n in range(1, MANY)]
    return written(tmp_path_factory.mktemp("many") / "set", [*small, awm_hub.load()[ENVIRONMENT]])


@pytest.fixture(scope="module")
def catalogue(dataset: Path) -> Catalogue:
    return read_catalogue(awm_hub.load(dataset))


@pytest.fixture(scope="module")
def hub(
    notes_dataset: Path, notes_environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoopbackHub]:
    found = LoopbackHub()
    evil = written(tmp_path_factory.mktemp("evil") / "set", [hostile(notes_environment)])
    for folder, name in ((notes_dataset, PUBLIC), (notes_dataset, PRIVATE), (evil, EVIL)):
        found.commit_folder(folder, name)
    found.repo(PRIVATE).private = True
    with found.serving():
        yield found


@pytest.fixture(scope="module")
def address(dataset: Path, hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A playground whose own token opens everything."""
    own = {**hub.environ(tmp_path_factory.mktemp("home")), "HF_HUB_OFFLINE": "0", "AWM_HUB_DATASET": str(dataset)}
    with running_playground(own) as found:
        yield found


def wait_for_titles(page: "Page", titles: list[str]) -> None:
    """Wait until the gallery shows these, in this order."""
    page.wait_for_function(
        """wanted => JSON.stringify(Array.from(document.querySelectorAll('.awm-pick-title'), (node) => node.innerText))
            === wanted""",
        arg=compact(titles),
    )


def compact(titles: list[str]) -> str:
    return "[" + ",".join(f'"{title}"' for title in titles) + "]"


def titles_of(catalogue: Catalogue, page: int = 0, **wanted: Any) -> list[str]:
    return [e.title for e in catalogue.find(Wanted(**wanted))][page * PAGE : (page + 1) * PAGE]


def search(page: "Page", words: str) -> None:
    page.get_by_placeholder(re.compile("overdue loans")).fill(words)


def open_dataset(page: "Page", name: str) -> None:
    opened = page.locator("#awm-dataset input, #awm-dataset textarea").first
    if not opened.is_visible():
        page.locator("#awm-open > button").click()
    opened.fill(name)
    page.click("#awm-open-dataset")


def test_pages_are_turned_and_a_search_and_a_filter_leave_what_fits(visitor: Visitor, catalogue: Catalogue) -> None:
    page = visitor.go()
    wait_for_titles(page, titles_of(catalogue))
    assert page.locator("#awm-before").is_disabled()
    for number in (1, 2):
        page.click("#awm-after")
        wait_for_titles(page, titles_of(catalogue, number))
    assert page.get_by_text("Page 3 of 3").is_visible()
    assert page.locator("#awm-after").is_disabled()
    page.click("#awm-before")
    wait_for_titles(page, titles_of(catalogue, 1))
    search(page, "desk 07")
    wait_for_titles(page, titles_of(catalogue, text="desk 07"))
    search(page, "overdue")
    wait_for_titles(page, [TITLE])
    page.wait_for_selector("#awm-after", state="hidden")
    search(page, "")
    page.wait_for_selector("#awm-after", state="visible")
    page.click("#awm-filters > button")
    page.locator("#awm-filter-tools label", has_text="31–40").click()
    wait_for_titles(page, titles_of(catalogue, tools=(31, 40)))


@pytest.mark.slow
def test_every_filter_leaves_what_the_catalogue_finds(visitor: Visitor, catalogue: Catalogue) -> None:
    page = visitor.go()
    wait_for_titles(page, titles_of(catalogue))
    page.click("#awm-filters > button")
    page.get_by_label("Categories").click()
    page.get_by_role("option", name="kind_3").click()
    page.keyboard.press("Escape")
    wait_for_titles(page, titles_of(catalogue, categories=("kind_3",)))
    page.get_by_label("Remove kind_3").or_(page.locator(".token-remove")).first.click()
    wait_for_titles(page, titles_of(catalogue))
    page.get_by_label("no audit error").check()
    wait_for_titles(page, titles_of(catalogue, flags=("sound",)))
    page.get_by_label("no audit error").uncheck()
    wait_for_titles(page, titles_of(catalogue))
    page.locator("#awm-filter-difficulty label", has_text="6–9").click()
    wait_for_titles(page, titles_of(catalogue, difficulty=(6, 9)))
    page.locator("#awm-filter-difficulty label", has_text="any").click()
    page.locator("#awm-filter-tables label", has_text="over 24").click()
    wait_for_titles(page, titles_of(catalogue, tables=(25, None)))
    search(page, "nowhere at all")
    page.get_by_text("Nothing fits.").wait_for()


@pytest.mark.slow
def test_a_card_is_reached_with_the_tab_key_and_opened_with_enter(visitor: Visitor, catalogue: Catalogue) -> None:
    page = visitor.go()
    wait_for_titles(page, titles_of(catalogue))
    page.get_by_placeholder(re.compile("overdue loans")).focus()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.awm-pick')"):
            break
    reached = page.evaluate("document.activeElement.dataset.environment")
    page.keyboard.press("Enter")
    page.locator("#awm-head h2", has_text=titles_of(catalogue)[0]).wait_for()
    page.wait_for_function("query => location.search === query", arg=f"?env={reached}&view=environment")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "seen"),
    [
        (f"?env={ENVIRONMENT}", "#awm-diagram svg"),
        (f"?env={ENVIRONMENT}&view=browse", ".awm-pick"),
        (f"?env={ENVIRONMENT}&view=play", "#awm-start"),
        (f"?env={ENVIRONMENT}&view=watch", "#awm-watch-start-left"),
        (f"?env={ENVIRONMENT}&view=viewer", "#awm-viewer-open"),
        (f"?env={ENVIRONMENT}&view=nonsense", "#awm-diagram svg"),
        ("?view=play", ".awm-pick"),
        (f"?dataset={PUBLIC}&env=notes", "#awm-diagram svg"),
    ],
)
def test_an_address_leads_to_its_view(visitor: Visitor, query: str, seen: str) -> None:
    visitor.go(query).wait_for_selector(f"{seen} >> visible=true")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?env=no_such_place", "no_such_place"),
        (f"?dataset={PRIVATE}&env=notes", f"there is no dataset {PRIVATE} for you"),
        ("?dataset=../etc/passwd&env=notes", "is no dataset of the Hub"),
        ("?dataset=upload-0123&env=notes", "upload the file again"),
    ],
)
def test_an_address_of_something_that_is_not_there_gives_a_message(visitor: Visitor, query: str, told: str) -> None:
    page = visitor.go(query)
    page.locator("#awm-head", has_text=told).wait_for()
    assert "Traceback" not in page.locator("body").inner_text()


@pytest.mark.slow
def test_an_uploaded_file_is_browsed_and_played(visitor: Visitor, notes_dataset: Path) -> None:
    (shard,) = notes_dataset.glob("environments/*.parquet")
    page = visitor.go()
    page.click("#awm-open > button")
    page.set_input_files("#awm-open input[type=file]", shard)
    page.locator(".awm-pick-id", has_text=re.compile("^notes$")).click()
    page.wait_for_selector("#awm-diagram svg")
    page.wait_for_function("location.search.startsWith('?dataset=upload-')")
    page.locator("#awm-environment-tabs [role=tab]", has_text="Tasks").click()
    page.locator("#awm-tasks button[data-tab=play]").first.click()
    visitor.begin()
    assert visitor.make_hinted_call()
    assert visitor.calls() == 1


@pytest.mark.slow
def test_a_file_that_is_no_dataset_gives_a_message_and_changes_nothing(
    visitor: Visitor, catalogue: Catalogue, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.parquet"
    wrong.write_bytes(b"PAR1 nothing")
    page = visitor.go()
    page.click("#awm-open > button")
    page.set_input_files("#awm-open input[type=file]", wrong)
    page.locator(".toast-body").first.wait_for()
    wait_for_titles(page, titles_of(catalogue))


@pytest.mark.slow
def test_another_dataset_is_opened_by_its_name_and_left_again(visitor: Visitor, catalogue: Catalogue) -> None:
    page = visitor.go()
    open_dataset(page, PUBLIC)
    page.locator("#awm-source", has_text="Dataset: ").wait_for()
    wait_for_titles(page, ["Notes"])
    page.wait_for_function("location.search === '?dataset=awm%2Fpublic-envs'")
    open_dataset(page, "")
    wait_for_titles(page, titles_of(catalogue))
    page.wait_for_function("location.search === ''")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("awm/absent", "there is no dataset awm/absent for you"),
        (PRIVATE, f"there is no dataset {PRIVATE} for you"),
        ("no-slash", "'no-slash' is no dataset of the Hub"),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
    ],
)
def test_a_dataset_that_does_not_open_gives_a_message(
    visitor: Visitor, catalogue: Catalogue, name: str, told: str
) -> None:
    page = visitor.go()
    wait_for_titles(page, titles_of(catalogue))
    open_dataset(page, name)
    visitor.told(told)
    wait_for_titles(page, titles_of(catalogue))


@pytest.mark.slow
def test_a_dataset_whose_every_text_is_an_attack_is_shown_as_text(visitor: Visitor) -> None:
    page = visitor.go()
    open_dataset(page, EVIL)
    page.locator(".awm-pick", has_text="<script>alert(1)</script>").click()
    page.wait_for_selector("#awm-diagram svg")
    for name in ("Data", "Tools", "Tasks", "Code", "Use"):
        page.locator("#awm-environment-tabs [role=tab]", has_text=name).click()
        for fold in page.locator("#awm-environment details > summary >> visible=true").all():
            fold.click()
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("#awm-tasks").inner_text().count("{{7*7}}") >= ATTACK.count("{{7*7}}")
