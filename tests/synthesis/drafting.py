"""A small, correct draft: the starter of `awm-hub new` as the parts that the stages would have made."""

import datetime as dt
import json
import tomllib
from importlib import resources
from typing import Any

from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft, Sizes

VERIFIERS = '''
"""Whether an ending of a task is right."""


def _unexpected(changes, allowed):
    """Every kind of change that the task does not ask for."""
    found = []
    for table, rows in changes.items():
        for kind in ("added", "removed", "changed"):
            if rows[kind] and (table, kind) not in allowed:
                found.append(f"{len(rows[kind])} rows {kind} in {table}")
    return found


def signals_due_today(initial, final, changes):
    return {"problems": _unexpected(changes, set())}


def signals_move_and_water_the_fern(initial, final, changes):
    problems = _unexpected(changes, {("plants", "changed"), ("waterings", "added")})
    for change in changes["plants"]["changed"]:
        wanted = {**change["before"], "room": "Kitchen"}
        if change["key"] != {"id": 3} or change["after"] != wanted:
            problems.append(f"plant {change['key']['id']} was changed to {change['after']}")
    if len(changes["plants"]["changed"]) != 1:
        problems.append("the fern was not moved")
    new = [(row["plant_id"], row["watered_on"]) for row in changes["waterings"]["added"]]
    if new != [(3, "2026-03-02")]:
        problems.append(f"the new waterings are {new}, not one of plant 3 on 2026-03-02")
    return {"problems": problems, "new": new}
'''
"""Signals as the stage of verification is asked to write them."""


def facts() -> dict[str, Any]:
    """What verification says of the two tasks."""
    query, change = _tasks()["due_today"], _tasks()["move_and_water_the_fern"]
    return {
        "due_today": {key: query[key] for key in ("success", "failure", "answer", "answer_sql")},
        "move_and_water_the_fern": {key: change[key] for key in ("success", "failure")},
    }


def verification_answer(told: dict[str, Any] | None = None, code: str = VERIFIERS) -> str:
    """An answer to the request for verification."""
    told = facts() if told is None else told
    return f"{products.fenced('json', json.dumps(told))}\n\n{products.fenced('python', code)}"


def draft_of(**changes: Any) -> Draft:
    """The starter as a draft with the products of all written stages; keywords replace the parts of a stage."""
    scenario = tomllib.loads(_text("scenario.toml"))
    tasks = {slug: {"kind": t["kind"], "instruction": t["instruction"]} for slug, t in _tasks().items()}
    told = {key: scenario[key] for key in ("title", "description", "categories")} | {"rules": ""}
    made = {
        "scenario": _records(told),
        "task": _records(tasks),
        "database": dict(products.read_sql(_text("schema.sql")).parts),
        "sample_data": dict(products.read_sql(_text("seed.sql")).parts),
        "toolset": _records(_toolset()),
        "code": products.python_parts(_text("tools.py")),
        "verification": _verification(),
    }
    return Draft(
        id="plant_care_1",
        name="Plant Care",
        clock=dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC),
        sizes=Sizes(tables=2, rows=5, tools=3, tasks=2),
        products=made | changes,
    )


def _verification() -> dict[str, str]:
    written = {f"task:{slug}": json.dumps(told) for slug, told in facts().items()}
    return written | products.python_parts(VERIFIERS)


def _toolset() -> dict[str, Any]:
    plant = {"plant_id": {"type": "int", "description": "Which plant."}}
    slug = "move_and_water_the_fern"
    return {
        "list_plants": {
            "effect": "read",
            "description": "List plants with the day on which each needs water next, the most urgent first.",
            "parameters": {
                "room": {"type": "str | None", "description": "Only plants in this room.", "default": None},
                "only_due": {"type": "bool", "description": "Only plants that need water today.", "default": False},
            },
            "returns": "a list of plants",
            "refuses": [],
            "tables": ["plants", "waterings"],
            "tasks": ["due_today", slug],
        },
        "water_plant": {
            "effect": "write",
            "description": "Note that a plant was watered today.",
            "parameters": plant,
            "returns": "the watering",
            "refuses": ["there is no such plant", "it was already watered today"],
            "tables": ["waterings"],
            "tasks": [slug],
        },
        "move_plant": {
            "effect": "write",
            "description": "Move a plant to another room.",
            "parameters": {**plant, "room": {"type": "str", "description": "The room it moves to."}},
            "returns": "the plant",
            "refuses": ["there is no such plant", "the room has no name"],
            "tables": ["plants"],
            "tasks": [slug],
        },
    }


def _records(values: dict[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}


def _tasks() -> dict[str, Any]:
    return tomllib.loads(_text("tasks.toml"))


def _text(name: str) -> str:
    return (resources.files("awm_hub.packing") / "starter" / name).read_text(encoding="utf-8")
