"""A draft: one environment on its way, with what each stage has made so far.

Its products are parts by stage. Written as a source folder it is what a person would write by hand
(`awm_hub.packing.sources`), so a draft is built, checked and published by the same code as any other environment.
"""

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from awm_hub.canonical import sha256_of
from awm_hub.environment import Provenance
from awm_hub.packing import Source, read_source
from awm_hub.packing.sources import PROVENANCE_KEYS
from awm_hub.synthesis import products
from awm_hub.synthesis.dressing import dressed
from awm_hub.synthesis.products import Parts

TASK = "task:"
"""Prefix of the parts of `verification` that are facts of a task; its other parts are Python."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How large an environment has to be at least."""

    tables: int = 12
    rows: int = 150
    tools: int = 25
    tasks: int = 10
    """Exactly as many (paper §1)."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One environment on its way."""

    id: str
    name: str
    """The scenario's name as it was given or invented."""
    outline: str = ""
    """What is known of the scenario beside its name."""
    interface: str = "functions"
    clock: dt.datetime
    sizes: Sizes = field(default_factory=Sizes)
    products: Mapping[str, Parts] = field(default_factory=dict)
    """Stage → its parts."""

    def having(self, stage: str, parts: Parts) -> "Draft":
        """The draft with another product of a stage."""
        return dataclasses.replace(self, products={**self.products, stage: dict(parts)})

    def parts(self, stage: str) -> Parts:
        """What a stage has made; empty before it has."""
        return self.products.get(stage, {})

    def records(self, stage: str) -> dict[str, Any]:
        """The JSON values of a stage's parts."""
        return {name: json.loads(text) for name, text in self.parts(stage).items()}

    @property
    def scenario(self) -> dict[str, Any]:
        """`title`, `description`, `categories`, `rules`."""
        return self.records("scenario")

    @property
    def tasks(self) -> dict[str, Any]:
        """Slug → `{"kind", "instruction"}`."""
        return self.records("task")

    @property
    def facts(self) -> dict[str, Any]:
        """Slug → what `verification` says of the task: `success`, `failure`, `answer`, `answer_sql` and more."""
        found = self.parts("verification")
        return {name.removeprefix(TASK): json.loads(text) for name, text in found.items() if name.startswith(TASK)}

    @property
    def schema_sql(self) -> str:
        """`schema.sql`."""
        return products.write_sql(self.parts("database"))

    @property
    def seed_sql(self) -> str:
        """`seed.sql`: tables in the order of the schema, in which a table stands after those that it refers to."""
        order = [name.removeprefix("table ") for name in self.parts("database")]
        found = self.parts("sample_data")
        known = {name: found[name] for name in order if name in found}
        return products.write_sql({**known, **found})

    @property
    def code(self) -> str:
        """`tools.py`."""
        parts = self.parts("code")
        if self.interface == "functions":
            parts = dressed(parts, self.records("toolset"))
        return products.write_python(parts)

    @property
    def verifier_module(self) -> str:
        """`verifiers.py`; empty where there is none."""
        parts = {name: text for name, text in self.parts("verification").items() if not name.startswith(TASK)}
        return products.write_python(parts) if parts else ""

    @property
    def solutions(self) -> dict[str, Any]:
        """Slug → `{"solution": [{tool, arguments}], "answer"}` of the attempts that were found right."""
        return self.records("solution")

    def hash(self, *stages: str) -> str:
        """Of the products of some stages, of all without any."""
        chosen = {s: dict(p) for s, p in self.products.items() if not stages or s in stages}
        return sha256_of([self.id, self.interface, self.clock.isoformat(), dataclasses.asdict(self.sizes), chosen])


def write_draft(draft: Draft, folder: Path, provenance: Provenance | None = None) -> None:
    """Write a draft as a source folder; what no stage has made yet is left empty.

    Tasks without a solution get the answer that `verification` expects the form of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "scenario.toml": tomlkit.dumps(_scenario(draft, provenance or Provenance())),
        "schema.sql": draft.schema_sql,
        "seed.sql": draft.seed_sql,
        "tools.py": draft.code,
        "tasks.toml": tomlkit.dumps(_tasks(draft)),
        "verifiers.py": draft.verifier_module,
    }
    for name, text in files.items():
        if text:
            (folder / name).write_text(text, encoding="utf-8")


def source_of(draft: Draft, folder: Path) -> Source:
    """The draft as a source, by way of a folder that is given for it.

    Raises:
        SourceError: something of it breaks the form of a source.
    """
    write_draft(draft, folder / draft.id)
    return read_source(folder / draft.id)


def _scenario(draft: Draft, provenance: Provenance) -> dict[str, Any]:
    told = draft.scenario
    found: dict[str, Any] = {
        "title": str(told.get("title") or draft.name),
        "description": str(told.get("description") or ""),
        "categories": list(told.get("categories") or ()) if draft.interface == "functions" else [],
        "rules": _lines(str(told.get("rules") or "")),
        "clock": draft.clock,
        "interface": draft.interface,
    }
    known = {key: getattr(provenance, key) for key in PROVENANCE_KEYS}
    given = {key: _plain(value) for key, value in known.items() if value is not None}
    return {**found, **({"provenance": given} if given else {})}


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict | list) else value


def _tasks(draft: Draft) -> dict[str, Any]:
    return {slug: _task(draft, slug, told) for slug, told in draft.tasks.items()}


def _task(draft: Draft, slug: str, told: Mapping[str, Any]) -> dict[str, Any]:
    facts, solved = draft.facts.get(slug, {}), draft.solutions.get(slug, {})
    found = {
        "instruction": told["instruction"],
        "kind": told["kind"],
        "answer": solved.get("answer", facts.get("answer")),
        "answer_order": facts.get("answer_order"),
        "answer_sql": _lines(facts.get("answer_sql")),
        "free": facts.get("free"),
        "solution": _solution(solved),
        "success": facts.get("success"),
        "failure": facts.get("failure"),
    }
    if found["answer"] is None:
        found["answer_sql"] = found["answer_order"] = None
    return {key: value for key, value in found.items() if value is not None and value != []}


def _lines(text: Any) -> Any:
    """A text of several lines as TOML writes one."""
    return tomlkit.string(text, multiline=True) if isinstance(text, str) and "\n" in text else text


def _solution(solved: Mapping[str, Any]) -> Any:
    """As JSON text, in which nothing is a reference, unless some are meant."""
    if "solution" not in solved:
        return None
    steps = solved["solution"]
    return steps if solved.get("references") else json.dumps(steps, ensure_ascii=False)
