"""A newcomer's way through the playground in a real browser, two visitors beside each other, and the MCP URL."""

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playground.served import running_playground
from playground.visitor import ENVIRONMENT, Visitor, browser, other, visitor

import awm_hub

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "other", "visitor"]
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_branches", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_playground() as found:
        yield found


def change_task() -> Any:
    """One that only changes rows, so that no answer has to be worded."""
    return next(t for t in awm_hub.load()[ENVIRONMENT].tasks if t.kind == "change")


def test_a_newcomer_finds_a_task_completes_it_and_shares_it(visitor: Visitor, other: Visitor) -> None:
    page = visitor.go()
    page.wait_for_selector(".awm-pick")
    page.get_by_placeholder(re.compile("search", re.I)).first.fill("library")
    page.locator(".awm-pick:first-child", has_text="Public Library Network").click()
    page.click("#awm-go-play")
    page.wait_for_selector("#awm-start")
    page.wait_for_function("query => location.search === query", arg=f"?env={ENVIRONMENT}&view=play")
    visitor.start(change_task().slug)
    while visitor.make_hinted_call():
        pass
    page.fill("#awm-answer textarea", "Done.")
    page.click("#awm-submit")
    page.wait_for_selector(".awm-outcome.awm-good >> text=COMPLETED")
    made = visitor.calls()
    page.get_by_text("Share or keep").click()
    page.click("#awm-share")
    page.wait_for_function("() => document.querySelector('#awm-link textarea').value.includes('?play=')")
    link = page.input_value("#awm-link textarea")

    other.page.goto(link)
    other.page.wait_for_selector(".awm-outcome.awm-good >> text=COMPLETED")
    assert other.calls() == made == len(change_task().solution)


def test_visitors_see_nothing_of_each_other_and_undo_goes_back(visitor: Visitor, other: Visitor) -> None:
    visitor.start(change_task().slug)
    other.start(change_task().slug)
    assert visitor.make_hinted_call()
    assert visitor.make_hinted_call()
    other.page.click("#awm-since >> text=the beginning")
    other.page.wait_for_timeout(500)
    assert (visitor.calls(), other.calls()) == (2, 0)
    visitor.page.click('#awm-history [data-to="0"]')
    visitor.page.wait_for_selector("#awm-history >> text=No calls yet")


def test_closing_the_tab_frees_the_instance(browser: "Browser", address: str) -> None:
    guest = Visitor(browser, address)
    guest.start(None)
    guest.page.get_by_text("Connect an MCP client").click()
    url = guest.page.locator(".awm-copy").first.inner_text()
    assert httpx.post(url, json=CALL, headers=HEADERS).status_code == 200
    guest.close()
    deadline = time.monotonic() + 30
    while httpx.post(url, json=CALL, headers=HEADERS).status_code != 404:
        assert time.monotonic() < deadline, "the instance is still there"
        time.sleep(0.2)


def test_what_an_mcp_client_calls_is_seen_by_the_visitor(visitor: Visitor) -> None:
    visitor.start(None)
    page = visitor.page
    page.get_by_text("Connect an MCP client").click()
    url = page.locator(".awm-copy").first.inner_text()
    answer = httpx.post(url, json=CALL, headers=HEADERS).json()
    assert "error" not in answer
    page.wait_for_selector("#awm-history li >> text=list_branches")
    assert httpx.post(url, json=CALL, headers={**HEADERS, "host": "evil.example"}).status_code == 421
    foreign = url.replace("/i/", f"/{ENVIRONMENT}/").replace(url.rsplit("/i/")[1], "mcp")
    assert httpx.post(foreign, json=CALL, headers=HEADERS).status_code in (404, 405)


@pytest.mark.slow
def test_the_address_names_the_view_for_a_reload_and_back_leads_to_the_gallery(
    browser: "Browser", address: str
) -> None:
    guest = Visitor(browser, address)  # gradio calls it an error when a page is left while it waits for an answer
    page = guest.go()
    page.wait_for_selector(".awm-pick")
    page.locator(".awm-pick", has_text="Public Library Network").click()
    for view in ("play", "watch", "play"):
        page.click(f"#awm-tab-{view}-button")
        page.wait_for_function("query => location.search === query", arg=f"?env={ENVIRONMENT}&view={view}")
    page.reload()
    page.wait_for_selector("#awm-start >> visible=true")
    page.go_back()
    page.wait_for_selector(".awm-pick >> visible=true")
    assert page.url == f"{address}/"
    guest.close()


@pytest.mark.slow
def test_a_visitor_is_told_what_an_attempt_lacks_and_what_can_be_done_after_its_end(visitor: Visitor) -> None:
    visitor.start("owed_by_ingeborg")
    page = visitor.page
    page.click("#awm-submit")
    visitor.told("This task asks for an answer")
    assert page.locator(".awm-outcome").count() == 0
    page.get_by_text("Share or keep").click()
    page.click("#awm-share")
    page.wait_for_function("() => document.querySelector('#awm-link textarea').value.includes('?play=')")
    page.fill("#awm-answer textarea", "9")
    page.click("#awm-submit")
    page.locator(".awm-outcome", has_text="Start over, or go back").wait_for()
    page.wait_for_function("() => document.querySelector('#awm-link textarea').value === ''")
    page.locator("#awm-form .awm-call").click()
    visitor.told("This attempt has ended. Press Start over")
    page.click("#awm-start")
    page.wait_for_selector(".awm-outcome", state="detached")
    assert page.input_value("#awm-answer textarea") == ""


@pytest.mark.slow
def test_a_task_that_is_not_there_leaves_the_environment_to_roam_in(visitor: Visitor) -> None:
    page = visitor.go(f"?env={ENVIRONMENT}&task=no_such_task&view=play")
    visitor.told("No task named 'no_such_task'")
    page.click("#awm-start")
    page.wait_for_selector("#awm-history >> text=No calls yet")


@pytest.mark.slow
def test_the_mcp_url_is_copied_by_a_button(visitor: Visitor) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.start(None)
    page = visitor.page
    page.get_by_text("Connect an MCP client").click()
    page.locator(".awm-copy + button").first.click()
    page.locator(".awm-copy + button", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".awm-copy").first.inner_text()


@pytest.mark.slow
def test_on_a_phone_a_changed_cell_is_in_sight_and_rows_without_a_change_can_be_left_out(
    browser: "Browser", address: str
) -> None:
    guest = Visitor(browser, address, viewport={"width": 390, "height": 844})
    guest.start("renew_mateos_loans")
    cell = guest.page.locator("#awm-tables td.awm-changed").first
    while not cell.count():
        assert guest.make_hinted_call()
    guest.page.wait_for_function(
        """() => {
          const cell = document.querySelector('#awm-tables td.awm-changed').getBoundingClientRect();
          const region = document.querySelector('#awm-tables .awm-live').getBoundingClientRect();
          return cell.left >= region.left && cell.right <= region.right + 1;
        }"""
    )
    still = guest.page.locator("#awm-tables .awm-still >> visible=true")
    assert still.count() > 20
    guest.page.locator("#awm-only input").check()
    assert still.count() == 0
    assert cell.is_visible()
    guest.close()
    assert guest.complaints == []
