"""The form of a tool in a real browser: what is filled in reaches the handler as exactly these arguments."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import gradio as gr
import pytest
from playground.served import running_browser

from awm_hub.canonical import to_json
from awm_hub.parts import ToolSpec
from awm_hub.playground.ui import form as form_ui

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = '"><img src=x onerror="window.harmed=1"><script>window.harmed=1</script>${window.harmed=1}'
ORDER = ToolSpec(
    name="place_order",
    description=f"Place an order. {EVIL}",
    effect="write",
    input_schema={
        "properties": {
            "customer_id": {"type": "integer", "description": EVIL},
            "note": {"type": "string"},
            "priority": {"enum": ["normal", EVIL, 3]},
            "paid": {"type": "boolean"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer"}},
                    "required": ["sku", "quantity"],
                },
            },
            "discount": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": 1},
            "gift": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "address": {"type": "object", "properties": {EVIL: {"type": "string"}, "city": {"type": "string"}}},
            "extra": {"type": "object"},
        },
        "required": ["customer_id", "note", "priority", "paid", "lines"],
    },
)
PING = ToolSpec(name="ping", description="Answers.", effect="read", input_schema={"properties": {}})
WANTED = {
    "customer_id": 9007199254740993,
    "note": '\nfirst\n<second> & "third"\t\'',
    "priority": 3,
    "paid": False,
    "lines": [{"sku": "A-1", "quantity": 2}, {"sku": "", "quantity": 0}],
    "discount": None,
    "gift": None,
    "tags": [],
    "address": {EVIL: "x", "city": ""},
    "extra": {"k": [1, 2.5, None]},
}
CALLS: list[tuple[str, dict[str, Any]]] = []


def _blocks() -> Any:
    with gr.Blocks(analytics_enabled=False) as blocks:
        form = form_ui.tool_form()
        hint, odd = gr.Button("Hint", elem_id="hint"), gr.Button("Odd", elem_id="odd")
        count = gr.Textbox(label="Calls", elem_id="count")

        async def called(tool: str, arguments: dict[str, Any], _count: str, request: gr.Request) -> list[Any]:
            assert request.session_hash
            CALLS.append((tool, arguments))
            return [str(len(CALLS))]

        form.on_call(called, [count], [count], concurrency_limit=None)
        hint.click(lambda: (ORDER.name, to_json(WANTED)), None, form.wanted)
        odd.click(lambda: (ORDER.name, to_json({"unknown": EVIL})), None, form.wanted)
        blocks.load(lambda: form_ui.packed([ORDER, PING]), None, form.tools)
    return blocks


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    blocks = _blocks()
    _, url, _ = blocks.launch(
        server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, css=form_ui.CSS, ssr_mode=False
    )
    yield url
    blocks.close()


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with running_browser() as found:
        yield found


@pytest.fixture
def page(browser: "Browser", address: str) -> Iterator["Page"]:
    CALLS.clear()
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(20_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector("form[data-tool=place_order]")
    yield page
    assert errors == []
    assert page.evaluate("window.harmed") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it fits a phone"
    page.close()


def control(page: "Page", name: str, which: int = 0) -> Any:
    return page.locator(f".awm-field[data-name='\"{name}\"'] > label > .awm-control").nth(which)


def chip(page: "Page", name: str, how: str) -> Any:
    return page.locator(f".awm-field[data-name='\"{name}\"'] > .awm-chips .awm-chip:has([data-how={how}])")


def wait_for_call(page: "Page", number: int = 1) -> tuple[str, dict[str, Any]]:
    page.wait_for_function("n => document.querySelector('#count textarea').value === String(n)", arg=number)
    return CALLS[-1]


def test_a_form_that_is_filled_in_by_hand_sends_exactly_that(page: "Page") -> None:
    control(page, "customer_id").fill("9007199254740993")
    control(page, "note").fill("two\nlines")
    control(page, "priority").select_option(label="3")
    control(page, "paid").select_option("false")
    control(page, "sku").fill("A-1")
    control(page, "quantity").fill("2")
    page.get_by_role("button", name="+ Add an entry").first.click()
    control(page, "sku", 1).fill("B-2")
    control(page, "quantity", 1).fill("3")
    chip(page, "discount", "null").click()
    chip(page, "tags", "empty").click()
    control(page, "city").fill("Ulm")
    control(page, "city").press("Enter")
    assert wait_for_call(page) == (
        "place_order",
        {
            "customer_id": 9007199254740993,
            "note": "two\nlines",
            "priority": 3,
            "paid": False,
            "lines": [{"sku": "A-1", "quantity": 2}, {"sku": "B-2", "quantity": 3}],
            "discount": None,
            "tags": [],
            "address": {"city": "Ulm"},
        },
    )


def test_a_hint_fills_the_form_and_is_sent_as_it_is_even_twice(page: "Page") -> None:
    for number in (1, 2):
        page.click("#hint")
        page.wait_for_function("document.querySelectorAll('.awm-row').length === 2")
        page.get_by_role("button", name="Call", exact=True).click()
        assert wait_for_call(page, number) == ("place_order", WANTED)
        page.get_by_role("button", name="Clear").click()
        page.wait_for_function("document.querySelectorAll('.awm-row').length === 1")
        assert control(page, "customer_id").input_value() == ""


def test_the_same_arguments_are_edited_as_json_and_come_back_to_the_form(page: "Page") -> None:
    page.click("#hint")
    page.wait_for_function("document.querySelectorAll('.awm-row').length === 2")
    page.get_by_role("button", name="As JSON").click()
    text = page.locator("form[data-mode=json] textarea")
    text.fill(text.input_value().replace("9007199254740993", "41"))
    page.get_by_role("button", name="As Form").click()
    page.wait_for_selector("form[data-mode=form]")
    assert control(page, "customer_id").input_value() == "41"
    page.get_by_role("button", name="As JSON").click()
    page.locator("form[data-mode=json] textarea").press("Control+Enter")
    assert wait_for_call(page) == ("place_order", {**WANTED, "customer_id": 41})


def test_arguments_that_the_form_cannot_show_are_opened_as_json(page: "Page") -> None:
    page.click("#odd")
    page.wait_for_selector("form[data-mode=json] .awm-form-note, .awm-form-note")
    page.get_by_role("button", name="Call", exact=True).click()
    assert wait_for_call(page) == ("place_order", {"unknown": EVIL})


def test_a_field_that_does_not_fit_says_so_keeps_the_rest_and_has_the_focus(page: "Page") -> None:
    page.click("#hint")
    page.wait_for_function("document.querySelectorAll('.awm-row').length === 2")
    control(page, "quantity", 1).fill("many")
    control(page, "customer_id").fill("7")
    control(page, "customer_id").press("Enter")
    page.wait_for_selector(".awm-error")
    assert page.locator(".awm-error").inner_text() == "✗ Must be a whole number. Write it in digits, as 42."
    assert CALLS == []
    assert control(page, "quantity", 1).evaluate("(node) => node === document.activeElement")
    control(page, "quantity", 1).fill("4")
    control(page, "quantity", 1).press("Enter")
    lines = [WANTED["lines"][0], {"sku": "", "quantity": 4}]
    assert wait_for_call(page) == ("place_order", {**WANTED, "customer_id": 7, "lines": lines})


def test_typing_takes_null_back_and_an_entry_can_be_removed(page: "Page") -> None:
    page.click("#hint")
    page.wait_for_function("document.querySelectorAll('.awm-row').length === 2")
    control(page, "discount").fill("2.5")
    page.get_by_role("button", name="Remove this entry").first.click()
    page.get_by_role("button", name="Call", exact=True).click()
    found = wait_for_call(page)[1]
    assert (found["discount"], found["lines"]) == (2.5, [WANTED["lines"][1]])


def test_another_tool_is_found_by_typing_and_has_its_own_form(page: "Page") -> None:
    control(page, "customer_id").fill("5")
    box = page.locator("#awm-tool input")
    box.fill("pin")
    page.get_by_role("option", name="ping · reads").click()
    page.wait_for_selector("form[data-tool=ping]")
    assert page.locator("form[data-tool=ping]").inner_text().startswith("reads Answers.")
    page.get_by_role("button", name="Call", exact=True).click()
    assert wait_for_call(page) == ("ping", {})
