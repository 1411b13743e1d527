"""Pieces of the gallery and of an environment's page, as escaped HTML."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from awm_hub.environment import Environment, Provenance, Quality, Task, TaskQuality, ToolSpec
from awm_hub.errors import AwmHubError
from awm_hub.playground.catalogue import FLAGS, Entry, Statistics
from awm_hub.playground.markup import Markup, counted, element, joined, line, text
from awm_hub.safetext import clean, readable_json
from awm_hub.trajectory import Outcome

_MAX_PROPERTIES, _VALUE_WIDTH, _JSON_CHARACTERS, _MAX_TEXT = 60, 160, 20_000, 40_000
_TONES = {"read": "good", "write": "doubtful"}
_EFFECTS = {"read": "reads", "write": "writes", "unknown": "effect unknown"}
OUTCOMES: Mapping[Outcome, tuple[str, str]] = {
    Outcome.COMPLETED: ("good", "✓ Completed"),
    Outcome.PARTIALLY_COMPLETED: ("doubtful", "~ Partly completed"),
    Outcome.AGENT_ERROR: ("bad", "✗ Not completed"),
    Outcome.ENVIRONMENT_ERROR: ("bad", "✗ The environment failed"),
}
"""Of a verdict: its tone, and the words for a visitor."""
_USUAL = ("audited", "sound", "solved")
"""Flags that a card shows; the others are in the page."""


def label(words: str, tone: str = "", hint: str | None = None, *, is_marked: bool = True) -> Markup:
    """A small label; the tone is `good`, `bad`, `doubtful` or none, and a mark says it to who sees no colours."""
    mark = {"good": "✓ ", "bad": "✗ ", "doubtful": "! "}.get(tone, "") if is_marked else ""
    return element("span", mark + line(words, 80), class_=f"awm-label awm-{tone or 'soft'}", title=hint)


def address(dataset: str | None, environment: str) -> str:
    """The query of an environment's deep link."""
    named = {"dataset": clean(dataset)} if dataset else {}
    return "?" + urlencode({**named, "env": environment})


def gallery(entries: Sequence[Entry], dataset: str | None = None) -> Markup:
    """Cards that lead to the environments' pages."""
    if not entries:
        return element("p", "Nothing fits. Take a filter away, or search for fewer words.", class_="awm-soft")
    return element("div", *(card(e, dataset) for e in entries), class_="awm-gallery", role="list")


def card(entry: Entry, dataset: str | None = None) -> Markup:
    """One environment, as a link that works with the keyboard and in a new tab."""
    sizes = (("tool", entry.tools_count), ("table", entry.tables_count), ("task", entry.tasks_count))
    numbers = [element("span", element("b", f"{n:,}"), f" {one if n == 1 else one + 's'}") for one, n in sizes]
    if entry.difficulties:
        low, high = min(entry.difficulties), max(entry.difficulties)
        numbers.append(element("span", element("b", f"{low}–{high}" if low < high else f"{low}"), " calls"))
    flags = [label(FLAGS[f], "good") for f in _USUAL if f in entry.flags] or [label("not audited")]
    return element(
        "a",
        element("span", line(entry.title, 120), class_="awm-pick-title"),
        element("span", line(entry.id), class_="awm-pick-id"),
        element("span", line(" ".join(entry.summary.split()), 240), class_="awm-pick-told"),
        _tags(entry.categories, entry.usage, entry.split),
        element("span", *numbers, class_="awm-pick-size"),
        element("span", *flags[1:] if len(flags) > 1 else flags, class_="awm-tags"),
        class_="awm-pick",
        href=address(dataset, entry.id),
        data_environment=entry.id,
    )


def _tags(categories: Iterable[str], usage: str, split: str) -> Markup:
    kept = ["evaluation only"] if usage == "eval_only" else ["test split"] if split == "test" else []
    names = [line(c, 30) for c in categories][:6]
    return element("span", *(element("span", n, class_="awm-tag") for n in [*names, *kept]), class_="awm-tags")


def figures(found: Statistics) -> Markup:
    """The numbers of what was found."""
    pairs = (
        ("environment", found.environments),
        ("tool", found.tools),
        ("table", found.tables),
        ("task", found.tasks),
    )
    parts = (element("div", element("dt", n if c == 1 else n + "s"), element("dd", f"{c:,}")) for n, c in pairs)
    return element("dl", *parts, class_="awm-figures")


def heading(words: str) -> Markup:
    """A heading within a page."""
    return element("h3", words, class_="awm-heading")


def head(environment: Environment) -> Markup:
    """Title, categories and sizes of an environment."""
    e = environment
    sizes = (("tool", e.tools), ("table", e.tables), ("task", e.tasks))
    told = " · ".join(counted(len(found), one) for one, found in sizes)
    return element(
        "header",
        element("h2", line(e.title, 160), class_="awm-page-title"),
        element("p", element("code", line(e.id)), f" · {told} · code as {e.interface}", class_="awm-soft"),
        _tags(e.categories, e.usage, e.split),
    )


def scenario(environment: Environment) -> Markup:
    """Description, rules and the moment."""
    e = environment
    rules = [heading("Rules"), _prose(e.rules.strip())] if e.rules.strip() else []
    now = f"It is {e.clock:%A}, {e.clock.day} {e.clock:%B %Y, %H:%M} (UTC) there."
    told = _prose(e.description.strip() or "No description.")
    return joined([told, *rules, element("p", now, class_="awm-soft")])


def _prose(words: str) -> Markup:
    return element("p", words[:_MAX_TEXT], class_="awm-told")


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Names and values, side by side."""
    parts = (part for name, value in pairs for part in (element("dt", name), element("dd", line(value, 400))))
    return element("dl", *parts, class_="awm-facts")


def audit(environment: Environment) -> Markup:
    """What the audit says of the environment as a whole."""
    quality = environment.quality
    if quality is None:
        return element("p", "Not audited: nothing is known of its soundness.", class_="awm-soft")
    if quality.audited_hash != environment.content_hash:
        return element("p", label("outdated", "doubtful"), " The audit was of another content.")
    day = f" on {quality.audited_at:%Y-%m-%d}" if quality.audited_at else ""
    by = element("p", line(f"Audited by {quality.audited_by or '?'}{day}"), class_="awm-soft")
    return joined([element("p", *_spaced(_checks(quality)), class_="awm-checks"), by])


def _spaced(parts: Iterable[Markup]) -> Iterator[Markup]:
    return (Markup(f"{part} ") for part in parts)


def _checks(quality: Quality) -> Iterator[Markup]:
    yield _check("two runs are identical", quality.deterministic)
    yield _check("no state outside the database", None if quality.hidden_state is None else not quality.hidden_state)
    tried = "" if quality.tools_tried is None else f" in {counted(quality.tools_tried, 'tool')}"
    yield _none(f"faults{tried}", quality.tool_faults)
    yield _none("schema errors", quality.schema_errors)
    yield _none("seed errors", quality.seed_errors)
    yield _none("broken foreign keys", quality.foreign_key_violations)
    for words, names in (("dropped", quality.dropped_tools), ("false effect", quality.false_effects)):
        yield from (label(f"{words}: {name}", "bad") for name in names[:20])
    yield from (label(f"audit error: {rule}", "bad") for rule in quality.errors[:20])


def _check(words: str, holds: bool | None) -> Markup:
    return label(words, {True: "good", False: "bad", None: ""}[holds], None if holds is not None else "not checked")


def _none(what: str, number: int | None) -> Markup:
    return _check(f"{number or 'no'} {what}", None if number is None else number == 0)


def provenance(environment: Environment) -> Markup:
    """Where the row comes from, and by which hash it is known."""
    found: Provenance = environment.provenance
    given = {
        "source": found.source,
        "revision of the source": found.source_revision,
        "generator": found.generator,
        "pipeline": found.pipeline_version,
        "created": f"{found.created_at:%Y-%m-%d %H:%M} (UTC)" if found.created_at else None,
        "attempts": _plain(found.attempts),
        "tokens": _plain(found.tokens),
        "cost": None if found.cost_usd is None else f"${found.cost_usd:,.2f}",
        "licence": found.license,
        "content hash": environment.content_hash,
        "split": environment.split,
        "usage": environment.usage,
        "needs": ", ".join(environment.requires) or None,
        "database": f"{len(environment.database):,} bytes",
    }
    return facts((name, str(value)) for name, value in given.items() if value is not None)


def _plain(value: Any) -> str | None:
    return None if value is None else readable_json(value, width=10_000)


def tools(environment: Environment) -> Markup:
    """All tools, each folded."""
    return joined(tool_card(t) for t in environment.tools)


def tool_card(tool: ToolSpec) -> Markup:
    """One tool: what it does to the database, its parameters, and its schemas."""
    shown = tool.input_schema.get("properties")
    properties = shown if isinstance(shown, Mapping) else {}
    inside = [element("p", clean(tool.description)[:_MAX_TEXT], class_="awm-told"), _parameters(tool, properties)]
    inside.append(_folded_json("Input schema", tool.input_schema))
    if tool.output_schema is not None:
        inside.append(_folded_json("Output schema", tool.output_schema))
    return element(
        "details",
        element(
            "summary",
            element("code", line(tool.name, 80)),
            label(_EFFECTS.get(tool.effect, tool.effect), _TONES.get(tool.effect, ""), is_marked=False),
            element("span", line(" ".join(tool.description.split()), 140), class_="awm-brief"),
        ),
        element("div", *inside, class_="awm-inside"),
        class_="awm-fold",
    )


def _parameters(tool: ToolSpec, properties: Mapping[str, Any]) -> Markup:
    if not properties:
        return element("p", "No parameters.", class_="awm-soft")
    asked = tool.input_schema.get("required")
    required = set(map(str, asked)) if isinstance(asked, list) else set()
    rows = []
    for name, found in list(properties.items())[:_MAX_PROPERTIES]:
        schema = found if isinstance(found, Mapping) else {}
        need = "required" if name in required else _default(schema)
        told = schema.get("description")
        meaning = line(told, 600) if isinstance(told, str) else ""
        cells = (element("code", line(name, 80)), type_of(schema), need, meaning)
        rows.append(element("tr", *(element("td", cell) for cell in cells)))
    return _table(("parameter", "type", "", "meaning"), rows, f"Parameters of {tool.name}")


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return "optional"
    return f"default {line(readable_json(schema['default'], width=10_000), 60)}"


def type_of(schema: Mapping[str, Any], depth: int = 0) -> str:
    """A JSON Schema's type in a few words; not escaped."""
    if depth > 3:
        return "…"
    if isinstance(found := schema.get("enum"), list):
        return line(" | ".join(readable_json(v, width=10_000) for v in found[:30]), _VALUE_WIDTH)
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list):
            kinds = [type_of(o, depth + 1) for o in options[:8] if isinstance(o, Mapping)]
            return line(" or ".join(dict.fromkeys(kinds)), _VALUE_WIDTH)
    kind = schema.get("type")
    words = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind or schema.get("$ref") or "any")
    if words == "array" and isinstance(items := schema.get("items"), Mapping):
        return f"list of {type_of(items, depth + 1)}"
    ends = [f"{sign} {schema[key]}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return line(" ".join([words, *ends]), _VALUE_WIDTH)


def _table(names: Sequence[str], rows: Iterable[Markup], told: str) -> Markup:
    top = element("thead", element("tr", *(element("th", n, scope="col") for n in names)))
    table = element("table", top, element("tbody", *rows))
    return element("div", table, class_="awm-scroll", tabindex="0", role="region", aria_label=line(told, 100))


def _folded_json(title: str, value: Any) -> Markup:
    return element("details", element("summary", title, class_="awm-soft"), code_block(readable_json(value)))


def code_block(words: str) -> Markup:
    """Code that is not highlighted."""
    cut = words if len(words) <= _JSON_CHARACTERS else words[:_JSON_CHARACTERS] + "\n…"
    return element("pre", cut, class_="awm-code", tabindex="0")


def tasks(environment: Environment) -> Markup:
    """All tasks with audit results; solutions, answers and verifiers are behind folds."""
    quality = environment.quality
    is_known = quality is not None and quality.audited_hash == environment.content_hash
    results = {q.id: q for q in quality.tasks} if quality is not None and is_known else {}
    return joined(task_card(t, results.get(t.id)) for t in environment.tasks)


def task_card(task: Task, quality: TaskQuality | None) -> Markup:
    """One task."""
    length = None if task.solution is None else len(task.solution)
    known = "no solution known" if length is None else counted(length, "call")
    kind, slug = label(task.kind or "kind unknown"), element("code", line(task.slug))
    parts = [
        element("p", label(known, "", "of the reference solution"), " ", kind, " ", slug, class_="awm-soft"),
        element("p", task.prompt[:_MAX_TEXT], class_="awm-told"),
        element("p", *_spaced(task_checks(quality)), class_="awm-checks"),
        element("p", _go("play", task, "Play this task"), " ", _go("watch", task, "Watch an agent try")),
        element("details", element("summary", "Spoilers: solution, answer, verifiers"), *_spoilers(task)),
    ]
    return element("section", *parts, class_="awm-card awm-task-card")


def _go(tab: str, task: Task, words: str) -> Markup:
    return element("button", words, type_="button", class_="awm-go", data_tab=tab, data_task=line(task.slug))


def task_checks(quality: TaskQuality | None) -> Iterator[Markup]:
    """Audit results of a task."""
    if quality is None:
        yield label("not audited")
        return
    yield _check("doing nothing fails", quality.noop_rejected)
    yield _check("not done at the start", quality.seed_unsatisfied)
    yield _check("solution passes", quality.solution_passes)
    yield _share("equivalents pass", quality.equivalents_accepted, quality.equivalents_tried)
    yield _share("mutants fail", quality.mutants_rejected, quality.mutants_tried)
    if quality.notes:
        yield label(quality.notes, "doubtful")


def _share(words: str, number: int | None, tried: int | None) -> Markup:
    if not tried:
        return _check(words, None)
    return label(f"{number or 0} of {tried} {words}", "good" if number == tried else "doubtful")


def _spoilers(task: Task) -> Iterator[Markup]:
    calls = [f"{line(c.tool)} {readable_json(c.arguments)}" for c in task.solution or ()]
    answer = "" if task.answer is None else readable_json(task.answer)
    shown = {
        "Solution": "\n".join(calls),
        f"Answer ({task.answer_order} order)": answer,
        "Answer by SQL": task.answer_sql or "",
        "Set up by": ";\n".join(task.setup),
    }
    for title, words in shown.items():
        if words:
            yield from (element("p", title, class_="awm-soft"), code_block(words))
    if task.free:
        yield element("p", f"Left open: {line(', '.join(task.free), 400)}", class_="awm-soft")
    for verifier in task.verifiers:
        yield element("p", f"Verifier of kind {verifier.kind}: {verifier.function}", class_="awm-soft")
        told = (("Success", verifier.success_criteria), ("Failure", verifier.failure_criteria))
        yield facts((name, " ".join(words.split())) for name, words in told if words)
        if verifier.code:
            yield code_block(verifier.code)


_ELSEWHERE = re.compile(r"awm-hub |POST /|reset\(\)")
"""Advice for somebody at a terminal or in a program."""


def told(error: AwmHubError) -> str:
    """An error and its next step as sentences for somebody at a page; not yet escaped."""
    steps = [s for s in re.split(r"(?<=[.;])\s+", error.next_step or "") if not _ELSEWHERE.search(s)]
    return " ".join(f"{s[0].upper()}{s[1:]}." for part in (error.message, *steps) if (s := part.strip(" .;:")))


def message(words: str, tone: str = "doubtful") -> Markup:
    """A line for the visitor, with what went wrong."""
    return element("p", text(words), class_=f"awm-{tone}", role="status")
