"""The form of a tool as escaped HTML: native fields, so that keyboards, screen readers and phones know what they are.

The page's own script (`awm_hub.playground.ui.form`) reads the fields back by their classes and `data-` attributes. An
unsafe character in a text cannot be typed and is not shown: `filling.prefilled` leaves such arguments to the JSON view,
where they are escapes that read back the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from awm_hub.canonical import to_json
from awm_hub.parts import ToolSpec
from awm_hub.playground.filling import Entry
from awm_hub.playground.forms import ENTRY, Bounds, Field, FormError, form_of
from awm_hub.playground.markup import Markup, element, joined, line, text

EFFECTS = {"read": "reads", "write": "changes data"}
"""What a tool's effect is called; any other one `may change data`."""

_LABEL_WIDTH, _HELP_WIDTH, _CHOICE_WIDTH, _DEFAULT_WIDTH = 60, 300, 80, 40
_DESCRIPTION_WIDTH = 1_200
_KINDS = {"text": "text", "long_text": "text", "choice": "", "boolean": "", "object": "", "json": "JSON"}

_UNITS = {"text": "characters", "long_text": "characters", "list": ""}

Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What is shown of a tool: its form with what it holds, or its arguments as JSON where `json` is a text."""

    tool: ToolSpec
    entry: Entry
    json: str | None = None
    error: FormError | None = None
    note: str = ""
    """Why it looks as it does, for the visitor."""


def effect_of(tool: ToolSpec) -> str:
    """What a call of the tool can do, in a word or two."""
    return EFFECTS.get(tool.effect, "may change data")


def form_html(filled: Filled) -> Markup:
    """A tool's description, its fields and the buttons."""
    form, error = form_of(filled.tool), filled.error
    is_json = filled.json is not None
    note = [element("p", filled.note, class_="awm-form-note")] if filled.note else []
    if is_json:
        fields = _json_view(filled.json or "", error)
    elif form.kind == "json":
        fields = _field(form, filled.entry, (), error)
    else:
        fields = joined(_inner(form, filled.entry, (), error)) or element("p", "No arguments.", class_="awm-soft")
    whole = error is not None and error.path == () and not is_json and form.kind != "json"
    message = [_problem(error)] if error is not None and whole else []
    return element(
        "form",
        _head(filled.tool),
        *note,
        fields,
        *message,
        _buttons(is_json, form.kind),
        class_="awm-form",
        novalidate="novalidate",
        autocomplete="off",
        data_tool=filled.tool.name,
        data_mode="json" if is_json else "form",
    )


def _head(tool: ToolSpec) -> Markup:
    tone = {"read": "awm-good", "write": "awm-doubtful"}.get(tool.effect, "awm-soft")
    effect = element("span", effect_of(tool), class_=f"awm-label {tone}")
    told = line(" ".join(tool.description.split()), _DESCRIPTION_WIDTH)
    return element("p", effect, " ", told, class_="awm-form-told")


def _buttons(is_json: bool, kind: str) -> Markup:
    other = "Form" if is_json else "JSON"
    return element(
        "div",
        element("button", "Call", type="submit", class_="awm-call"),
        element("button", "Clear", type="button", class_="awm-plain", data_act="clear"),
        *([] if kind == "json" and not is_json else [_mode_button(other)]),
        class_="awm-form-buttons",
    )


def _mode_button(other: str) -> Markup:
    told = "Show the same arguments as JSON" if other == "JSON" else "Show the same arguments as a form"
    return element("button", f"As {other}", type="button", class_="awm-plain", data_act=other.lower(), title=told)


def _json_view(found: str, error: FormError | None) -> Markup:
    area = _area(found, "Arguments as JSON", rows=max(6, min(found.count("\n") + 2, 24)), is_wrong=error is not None)
    problem = [_problem(error)] if error is not None else []
    told = element("span", "Arguments, a JSON object. Sent as they are; Ctrl+Enter calls.", class_="awm-help")
    return element("div", area, told, *problem, class_="awm-field awm-json-view")


def _inner(form: Field, entry: Entry, path: Path, error: FormError | None) -> Iterator[Markup]:
    for part in form.fields:
        name = part.path[-1]
        yield _field(part, entry.fields.get(name, Entry()), (*path, name), error)


def _field(form: Field, entry: Entry, path: Path, error: FormError | None) -> Markup:
    mine = error if error is not None and error.path == path else None
    title = str(path[-1] + 1) if path and isinstance(path[-1], int) else line(form.label, _LABEL_WIDTH)
    if form.kind == "object":
        body = _group(form, title, element("div", *_inner(form, entry, path, error), class_="awm-inner"))
    elif form.kind == "list":
        body = _group(form, title, _rows(form, entry, path, error))
    else:
        control = _control(form, entry, title, mine is not None)
        body = element("label", _title(form, title), control, class_="awm-field-label")
    problem = [_problem(mine)] if mine is not None else []
    kind = "awm-field awm-group" if form.kind in ("object", "list") else "awm-field"
    return element(
        "div",
        body,
        *_chips(form, entry),
        *([] if form.kind in ("object", "list") else _help(form)),
        *problem,
        class_=kind,
        data_kind=form.kind,
        data_name=_exactly(form.path[-1]) if form.path else None,
    )


def _exactly(name: str) -> str:
    """A property name for the script: JSON, which keeps it whatever is in it."""
    return to_json(name).encode("ascii", "backslashreplace").decode() if name.isascii() else _escaped(name)


def _escaped(name: str) -> str:
    units = name.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)) + '"'


def _title(form: Field, title: str) -> Markup:
    is_needed = form.is_required and form.path != () and form.path[-1] != ENTRY
    need = [element("span", "*", class_="awm-need", title="required")] if is_needed else []
    return element(
        "span", element("b", title), " ", *need, " ", element("small", _facts(form)), class_="awm-field-title"
    )


def _facts(form: Field) -> str:
    """Type, limits and default in a few words."""
    kind = _KINDS.get(form.kind, form.kind)
    default = f"default {line(form.default, _DEFAULT_WIDTH)}" if form.default not in ("", "null") else ""
    return " · ".join(part for part in (kind, _limits(form), default) if part)


def _limits(form: Field) -> str:
    bounds = form.bounds
    least = None if form.kind in _UNITS and not bounds.least else bounds.least
    low = "" if least is None else f"{'more than' if bounds.is_least_excluded else 'at least'} {least:g}"
    high = "" if bounds.most is None else f"{'less than' if bounds.is_most_excluded else 'at most'} {bounds.most:g}"
    told = f"{least:g} to {bounds.most:g}" if _is_range(bounds, least) else " and ".join(p for p in (low, high) if p)
    return f"{told} {_UNITS.get(form.kind, '')}".strip() if told else ""


def _is_range(bounds: Bounds, least: float | None) -> bool:
    is_open = bounds.is_least_excluded or bounds.is_most_excluded
    return least is not None and bounds.most is not None and not is_open


def _help(form: Field) -> list[Markup]:
    return [element("p", line(" ".join(form.help.split()), _HELP_WIDTH), class_="awm-help")] if form.help else []


def _problem(error: FormError) -> Markup:
    told = f"{error.problem[:1].upper()}{error.problem[1:]}. {error.next_step}".strip()
    return element("p", f"✗ {line(told, _HELP_WIDTH)}", class_="awm-error", role="alert")


def _group(form: Field, title: str, inner: Markup) -> Markup:
    return element("fieldset", element("legend", _title(form, title)), *_help(form), inner)


def _rows(form: Field, entry: Entry, path: Path, error: FormError | None) -> Markup:
    """The entries of a list, and a template that further ones are made from."""
    assert form.item is not None
    rows = [_row(form.item, row, (*path, i), error) for i, row in enumerate(entry.rows)]
    template = element("template", _row(form.item, Entry(), (*path, len(rows)), None))
    add = element("button", "+ Add an entry", type="button", class_="awm-plain", data_act="add")
    return element("div", element("div", *rows, class_="awm-rows"), template, add, class_="awm-list")


def _row(item: Field, entry: Entry, path: Path, error: FormError | None) -> Markup:
    remove = element("button", "×", type="button", class_="awm-plain awm-remove", data_act="remove", title="Remove this entry", aria_label="Remove this entry")  # noqa: E501  # fmt: skip
    return element("div", _field(item, entry, path, error), remove, class_="awm-row")


def _chips(form: Field, entry: Entry) -> Iterator[Markup]:
    """Values that cannot be typed: null, and what is there but empty."""
    found = []
    if form.is_nullable and form.kind not in ("choice", "boolean"):
        found.append(_chip("null", "null", "Send null", entry))
    is_text = form.kind in ("text", "long_text")
    can_be_empty = is_text or (form.kind in ("list", "object") and not form.is_required)
    if entry.how == "empty" or (can_be_empty and not form.is_required and form.default != '""'):
        word, told = ('""', "Send an empty text") if is_text else ("empty", "Send it with nothing in it")
        found.append(_chip("empty", word, told, entry))
    if found:
        yield element("span", *found, class_="awm-chips")


def _chip(how: str, word: str, told: str, entry: Entry) -> Markup:
    box = element(
        "input", type="checkbox", data_how=how, checked="checked" if entry.how == how else None, aria_label=told
    )
    return element("label", box, element("span", word), class_="awm-chip", title=told)


def _control(form: Field, entry: Entry, title: str, is_wrong: bool) -> Markup:
    if form.kind in ("choice", "boolean"):
        return _select(form, entry, is_wrong)
    if form.kind in ("long_text", "json") or "\n" in entry.text:
        least = 2 if form.path else 6
        return _area(entry.text, "", rows=max(least, min(entry.text.count("\n") + 1, 16)), is_wrong=is_wrong, form=form)
    return element(
        "input",
        type="text",
        inputmode={"integer": "numeric", "number": "decimal"}.get(form.kind),
        value=entry.text,
        placeholder=_placeholder(form),
        class_="awm-control",
        spellcheck="false",
        **_states(form, is_wrong),
    )


def _area(found: str, name: str, *, rows: int, is_wrong: bool, form: Field | None = None) -> Markup:
    # the first line feed of a text area is not part of its text
    return element(
        "textarea",
        Markup("\n" + text(found)),
        rows=rows,
        class_="awm-control awm-mono" if form is None or form.kind == "json" else "awm-control",
        spellcheck="false",
        placeholder=_placeholder(form) if form is not None else None,
        aria_label=name or None,
        **(_states(form, is_wrong) if form is not None else {"aria_invalid": "true" if is_wrong else None}),
    )


def _select(form: Field, entry: Entry, is_wrong: bool) -> Markup:
    chosen = "null" if entry.how == "null" else entry.text
    options = [("", "Choose …" if form.is_required else _left_alone(form))]
    if form.kind == "boolean":
        options += [("true", "true"), ("false", "false")]
    else:
        options += [(str(i), _choice(value)) for i, value in enumerate(form.choices)]
    if form.is_nullable:
        options.append(("null", "null"))
    shown = [element("option", told, value=v, selected="selected" if v == chosen else None) for v, told in options]
    return element("select", *shown, class_="awm-control", **_states(form, is_wrong))


def _choice(value: object) -> str:
    return line(value if isinstance(value, str) else to_json(value), _CHOICE_WIDTH)


def _left_alone(form: Field) -> str:
    return f"Default: {line(form.default, _DEFAULT_WIDTH)}" if form.default not in ("", "null") else "Left out"


def _placeholder(form: Field) -> str | None:
    if form.kind == "json":
        return "JSON"
    return form.example or ("" if form.is_required else _left_alone(form)) or None


def _states(form: Field, is_wrong: bool) -> dict[str, object]:
    return {
        "aria_invalid": "true" if is_wrong else None,
        "aria_required": "true" if form.is_required and form.path else None,
        "aria_description": line(" ".join(form.help.split()), _HELP_WIDTH) or None,
    }
