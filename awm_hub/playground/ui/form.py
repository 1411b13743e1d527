"""The form of a tool: choose one, fill in what it takes, call it.

The fields are one HTML component of native inputs, drawn on the server and read back by the script below. It knows
nothing about schemas: it tells what each field holds, and `awm_hub.playground.filling` makes arguments of that. Only
our own, escaped HTML is drawn (`awm_hub.playground.form_html`).
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from awm_hub.canonical import from_json
from awm_hub.errors import AwmHubError, UsageError
from awm_hub.parts import ToolSpec
from awm_hub.playground.filling import (
    Entry,
    arguments_from,
    arguments_from_json,
    prefilled,
    shown_arguments,
)
from awm_hub.playground.form_html import Filled, effect_of, form_html
from awm_hub.playground.forms import FormError, Tools
from awm_hub.playground.markup import element
from awm_hub.safetext import clean_line

Call = tuple[str, str]
"""Name of a tool and its arguments as JSON."""

_WIRING: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
_NO_TOOLS = element("p", "There is no tool to call.", class_="awm-soft")
_AS_JSON = "These arguments are more than a form can show, so they are shown as JSON."
_JS = """
const draw = () => {
  element.innerHTML = props.value || '';
  const wrong = element.querySelector('[aria-invalid="true"]');
  if (wrong) wrong.focus();
};
const parts = (node, path) => Array.from(node.querySelectorAll(path));
const read = (field) => {
  const chosen = field.querySelector(':scope > .awm-chips input:checked');
  const found = { how: chosen ? chosen.dataset.how : 'typed' };
  if (field.dataset.kind === 'object') {
    found.fields = {};
    for (const part of parts(field, ':scope > fieldset > .awm-inner > .awm-field'))
      found.fields[JSON.parse(part.dataset.name)] = read(part);
  } else if (field.dataset.kind === 'list') {
    found.rows = parts(field, ':scope > fieldset > .awm-list > .awm-rows > .awm-row > .awm-field').map(read);
  } else {
    const control = field.querySelector(':scope > label > .awm-control');
    if (control.tagName === 'SELECT' && control.value === 'null') found.how = 'null';
    else found.text = control.value;
  }
  return found;
};
const filled = () => {
  const form = element.querySelector('form');
  const found = { tool: form.dataset.tool, mode: form.dataset.mode };
  if (found.mode === 'json') return { ...found, json: form.querySelector('textarea').value };
  const alone = form.querySelector(':scope > .awm-field:not([data-name])');
  if (alone) return { ...found, entry: read(alone) };
  const fields = {};
  for (const part of parts(form, ':scope > .awm-field')) fields[JSON.parse(part.dataset.name)] = read(part);
  return { ...found, entry: { how: 'typed', fields } };
};
const numbered = (rows) => parts(rows, ':scope > .awm-row').forEach((row, i) => {
  const title = row.querySelector('.awm-field-title > b');
  if (title) title.textContent = String(i + 1);
});
const unmarked = (field) => parts(field, ':scope > .awm-chips input').forEach((box) => { box.checked = false; });
const acts = {
  add: (button) => {
    const list = button.closest('.awm-list');
    const rows = list.querySelector(':scope > .awm-rows');
    rows.append(list.querySelector(':scope > template').content.cloneNode(true));
    numbered(rows);
    unmarked(list.closest('.awm-field'));
    const control = rows.lastElementChild.querySelector('.awm-control');
    if (control) control.focus();
  },
  remove: (button) => {
    const rows = button.closest('.awm-rows');
    button.closest('.awm-row').remove();
    numbered(rows);
    rows.parentElement.querySelector(':scope > [data-act="add"]').focus();
  },
};
element.addEventListener('submit', (event) => {
  event.preventDefault();
  parts(element, '.awm-error').forEach((node) => node.remove());
  parts(element, '[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
  trigger('submit', filled());
});
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-act]');
  if (!button) return;
  const act = acts[button.dataset.act];
  if (act) act(button); else trigger('apply', { ...filled(), act: button.dataset.act });
});
element.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && event.target.tagName === 'TEXTAREA') {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
});
element.addEventListener('input', (event) => {
  let field = event.target.closest('.awm-field');
  if (event.target.matches('.awm-chips input')) {
    if (event.target.checked)
      parts(field, ':scope > .awm-chips input').forEach((box) => { box.checked = box === event.target; });
    field = field.parentElement.closest('.awm-field');
  }
  for (; field; field = field.parentElement.closest('.awm-field')) unmarked(field);
});
watch('value', draw);
draw();
"""
CSS = """
.awm-form { color: var(--awm-ink); display: flex; flex-direction: column; gap: .75rem; }
.awm-form p { margin: 0; overflow-wrap: anywhere; }
.awm-form-told { color: var(--awm-soft); }
.awm-form-note { color: var(--awm-doubtful); font-size: .875rem; }
.awm-field { position: relative; min-width: 0; }
.awm-field-label { display: block; }
.awm-field-title { display: block; margin-bottom: .2rem; padding-right: 6.5rem; overflow-wrap: anywhere; }
.awm-field-title b { font-weight: 600; font-size: .9rem; }
.awm-field-title small { color: var(--awm-soft); font-size: .78rem; }
.awm-need { color: var(--awm-bad); font-weight: 700; }
.awm-form .awm-control {
  display: block; width: 100%; min-height: 2.5rem; padding: .4rem .6rem; font: inherit; font-size: 1rem;
  color: var(--awm-ink); background: var(--awm-paper); border: 1px solid var(--awm-line); border-radius: .35rem;
}
.awm-form textarea.awm-control { resize: vertical; }
.awm-form select.awm-control { appearance: auto; }
.awm-form .awm-control::placeholder { color: var(--awm-soft); opacity: .8; }
.awm-form .awm-control:focus-visible, .awm-form button:focus-visible, .awm-chip:focus-within {
  outline: 2px solid var(--awm-accent); outline-offset: 1px;
}
.awm-form .awm-control[aria-invalid="true"] { border: 2px solid var(--awm-bad); }
.awm-form .awm-mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .875rem; }
.awm-help { display: block; color: var(--awm-soft); font-size: .8rem; line-height: 1.35; padding-top: .15rem; }
.awm-error { color: var(--awm-bad); font-size: .875rem; font-weight: 600; padding-top: .2rem; }
.awm-chips { position: absolute; top: -.05rem; right: 0; display: flex; gap: .3rem; }
.awm-chip {
  display: inline-flex; align-items: center; cursor: pointer; border: 1px solid var(--awm-line); border-radius: 1rem;
  padding: 0 .55rem; min-height: 1.5rem; font-size: .75rem; color: var(--awm-soft); background: var(--awm-paper);
}
.awm-chip input { position: absolute; opacity: 0; width: 1px; height: 1px; margin: 0; }
.awm-chip:has(:checked) { color: var(--awm-paper); background: var(--awm-accent); border-color: var(--awm-accent); }
.awm-chip:has(:checked) span::before { content: "✓ "; }
.awm-field:has(> .awm-chips :checked) > .awm-field-label .awm-control { opacity: .45; }
.awm-field:has(> .awm-chips :checked) > fieldset > div { opacity: .45; }
.awm-form fieldset {
  border: 1px solid var(--awm-line); border-radius: .4rem; padding: .5rem .75rem .75rem; margin: 0; min-width: 0;
}
.awm-form legend { padding: 0 .3rem; margin-left: -.3rem; }
.awm-form legend .awm-field-title { margin: 0; padding-right: .3rem; }
.awm-group > .awm-chips { top: .1rem; right: .6rem; background: var(--awm-paper); border-radius: 1rem; }
.awm-inner, .awm-rows { display: flex; flex-direction: column; gap: .6rem; }
.awm-list > .awm-plain { margin-top: .5rem; }
.awm-form fieldset > .awm-help { padding: 0 0 .5rem; }
.awm-row { display: flex; align-items: flex-start; gap: .4rem; }
.awm-row > .awm-field { flex: 1 1 auto; }
.awm-row > .awm-remove { margin-top: 1.55rem; min-width: 2.5rem; }
.awm-row:has(> .awm-group) > .awm-remove { margin-top: .7rem; }
.awm-form-buttons { display: flex; flex-wrap: wrap; gap: .5rem; }
.awm-form button { font: inherit; border-radius: .35rem; padding: .35rem .9rem; min-height: 2.5rem; cursor: pointer; }
.awm-form .awm-call {
  flex: 1 1 8rem; border: 1px solid var(--awm-accent); background: var(--awm-accent); color: var(--awm-paper);
  font-weight: 700;
}
.awm-form .awm-plain { border: 1px solid var(--awm-line); background: var(--awm-paper); color: var(--awm-ink); }
.awm-form .awm-plain:hover { background: var(--awm-raised); }
.awm-form .awm-call:hover { filter: brightness(1.08); }
"""


def packed(tools: Sequence[ToolSpec]) -> Tools:
    """Tools for a state of the page, which holds what can be hashed."""
    return Tools(tuple(tools))


@dataclass(frozen=True, kw_only=True)
class ToolForm:
    """The form's states, for the view around it."""

    tools: gr.State
    """What `packed` gives."""
    wanted: gr.State
    """A call to fill the form with: `Call`, or None."""
    chosen: gr.Dropdown
    """Where the tool is chosen."""
    drawn: gr.HTML
    """The fields."""

    def on_call(
        self, handler: Callable[..., Awaitable[Any]], inputs: Sequence[Any], outputs: Sequence[Any], **wiring: Any
    ) -> None:
        """Say what happens when the visitor calls.

        Args:
            handler: Is awaited with (tool, arguments, *inputs, request), and returns a list of the outputs' values.
            inputs: Components.
            outputs: Components.
            **wiring: What `submit` of a component takes besides.
        """

        async def called(event: gr.EventData, request: gr.Request, tools: Tools, *values: Any) -> list[Any]:
            try:
                tool, arguments = _read(tools, event._data)
            except FormError as error:
                return [*(gr.skip() for _ in outputs), _again(tools, event._data, error)]
            except AwmHubError as error:
                gr.Warning(escape(f"{error.message} {error.next_step}"))
                return [gr.skip() for _ in range(len(outputs) + 1)]
            return [*await handler(tool, arguments, *values, request), gr.skip()]

        self.drawn.submit(called, [self.tools, *inputs], [*outputs, self.drawn], **wiring)


def tool_form() -> ToolForm:
    """The form, in the layout that is being built."""
    tools, wanted = gr.State(Tools()), gr.State(None)
    chosen = gr.Dropdown(label="Tool", choices=[], interactive=True, filterable=True, elem_id="awm-tool")
    drawn = gr.HTML(_NO_TOOLS, html_template="", js_on_load=_JS, apply_default_css=False, elem_id="awm-form")
    form = ToolForm(tools=tools, wanted=wanted, chosen=chosen, drawn=drawn)
    tools.change(_offered, [tools, wanted], [chosen, drawn, wanted], **_WIRING)
    chosen.input(_empty, [tools, chosen], drawn, **_WIRING)
    wanted.change(_filled, [tools, wanted], [chosen, drawn, wanted], **_WIRING)
    drawn.apply(_turned, tools, drawn, **_WIRING)
    return form


def _offered(tools: Tools, wanted: Call | None) -> tuple[Any, Any, Any]:
    """Other tools: the first one, or the one that is wanted."""
    choices = [(f"{clean_line(spec.name, 80)} · {effect_of(spec)}", spec.name) for spec in tools.specs]
    if not choices:
        return gr.Dropdown(choices=[], value=None), _NO_TOOLS, gr.skip()
    name = wanted[0] if wanted is not None and wanted[0] in tools else choices[0][1]
    found = _filled(tools, wanted)[1] if wanted is not None and wanted[0] in tools else _empty(tools, name)
    return gr.Dropdown(choices=choices, value=name), found, None


def _empty(tools: Tools, name: str | None) -> Any:
    if name is None or name not in tools:
        return gr.skip()
    return _drawn(_opened(tools[name], None))


def _filled(tools: Tools, wanted: Call | None) -> tuple[Any, Any, Any]:
    if wanted is None or wanted[0] not in tools:
        return gr.skip(), gr.skip(), gr.skip()
    arguments = from_json(wanted[1])
    found = arguments if isinstance(arguments, dict) else {}
    return gr.Dropdown(value=wanted[0]), _drawn(_opened(tools[wanted[0]], found)), None


def _opened(tool: ToolSpec, arguments: dict[str, Any] | None) -> Filled:
    entry = prefilled(tool, arguments)
    if entry is not None:
        return Filled(tool=tool, entry=entry)
    return Filled(tool=tool, entry=Entry(), json=shown_arguments(arguments or {}), note=_AS_JSON)


def _turned(tools: Tools, event: gr.EventData) -> Any:
    """The same arguments the other way, or an empty form."""
    try:
        tool = _tool(tools, event._data)
        if event._data.get("act") == "clear":
            return _drawn(_opened(tool, None))
        if event._data.get("mode") != "json":
            found = arguments_from(tool, Entry.read(event._data.get("entry")), is_partial=True)
            return _drawn(Filled(tool=tool, entry=Entry(), json=shown_arguments(found)))
        found = arguments_from_json(str(event._data.get("json", "")))
        return _drawn(_opened(tool, found))
    except FormError as error:
        return _again(tools, event._data, error)
    except AwmHubError as error:
        gr.Warning(escape(f"{error.message} {error.next_step}"))
        return gr.skip()


def _tool(tools: Tools, sent: Any) -> ToolSpec:
    if not isinstance(sent, dict):
        raise UsageError("The form was not read.", next_step="Reload the page.")
    return tools[str(sent.get("tool"))]


def _read(tools: Tools, sent: Any) -> tuple[str, dict[str, Any]]:
    """A tool's name and the arguments that the browser sent.

    Raises:
        FormError: a field does not hold what it takes.
        AwmHubError: the tool is none of these.
    """
    tool = _tool(tools, sent)
    if sent.get("mode") == "json":
        return tool.name, arguments_from_json(str(sent.get("json", "")))
    return tool.name, arguments_from(tool, Entry.read(sent.get("entry")))


def _again(tools: Tools, sent: Any, error: FormError) -> Any:
    """What the visitor filled in, with what is wrong beside the field."""
    json = str(sent.get("json", "")) if sent.get("mode") == "json" else None
    return _drawn(Filled(tool=_tool(tools, sent), entry=Entry.read(sent.get("entry")), json=json, error=error))


def _drawn(filled: Filled) -> str:
    """HTML that differs every time, so that it is drawn anew whatever a visitor did to the last one."""
    return element("div", form_html(filled), data_drawn=secrets.token_hex(4))
