"""A world small enough for a model of half a million numbers: two tools and one kind of task of a bundled environment.

The environment is `field_service_1`: its database, its code in a sealed process and its verification are the real
ones. What is small is what a policy has to read. Two of its 38 tools are left, with bare schemas; `record_absence` is
one of the few writing tools whose result is short. The system prompt is one sentence in place of the protocol's 500
tokens. The tasks are made of one template over the seed's rows: a technician of a depot is away on a day. Their setup
deals the technicians' names out anew over the ids and depots, so that an id cannot be remembered but has to be read in
the result of `list_technicians` and copied into the next call, as every agent does. Each task has a reference solution,
from which the environment's judge derives its decision: the changes must be exactly the solution's.

An episode that solves a task has four messages: `list_tools`, `list_technicians`, `record_absence`, and a last one that
ends the work. With a window of one turn the last message is written without seeing the list, that is with a history
unlike any that a policy saw which was trained on full ones.
"""

import functools
import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import awm_hub
from awm_hub.environment import Call, Environment, Task, ToolSpec
from awm_hub.history import Window
from training import tiny

SYSTEM = "You work with list_tools and call_tool."
WINDOW = Window(turns=1)
"""The head, which is the first exchange, and one turn."""
FULL = Window()
MAX_TURNS = 6
PRESENT = 6
"""Technicians who are active, two in each depot."""
KINDS = ("sick", "vacation", "training")
DAYS = tuple(f"2026-{month}-{day:02d}" for month in (11, 12) for day in range(1, 31))
DEPOTS = {1: "NORTH", 2: "EAST", 3: "SOUTH"}
ARGUMENTS = {"list_technicians": ("depot_code",), "record_absence": ("technician_id", "first_day", "last_day", "kind")}
TRAIN, HELD_OUT = 1000, 256
"""Tasks to train on, and others to evaluate with."""


@functools.cache
def technicians() -> tuple[tuple[int, str], ...]:
    """Ids and names of the seed's active technicians."""
    return _seed("SELECT id, full_name FROM employees WHERE role = 'technician' AND is_active ORDER BY id")


@functools.cache
def _absences() -> tuple[tuple[int, str, str], ...]:
    return _seed("SELECT technician_id, first_day, last_day FROM absences")


def _seed(sql: str) -> tuple[tuple[Any, ...], ...]:
    """Rows of the environment's seed."""
    import sqlite3

    database = sqlite3.connect(":memory:")
    database.deserialize(awm_hub.load()["field_service_1"].database)
    return tuple(database.execute(sql).fetchall())


@functools.cache
def world() -> Environment:
    """The environment with the tasks of this experiment: those to train on first, then the held-out ones."""
    found = awm_hub.load()["field_service_1"]
    draw = random.Random(0)
    combined = list(itertools.product(range(len(technicians())), KINDS, DAYS))
    draw.shuffle(combined)
    tasks = [_task(found.id, *numbered, draw) for numbered in enumerate(combined[: TRAIN + HELD_OUT])]
    tools = tuple(_bare(found.tool(name)) for name in ARGUMENTS)
    small = replace(found, tools=tools, tasks=tuple(tasks), description="", rules="", quality=None)
    return small.with_hash(found.content_hash)


def train_tasks() -> list[Task]:
    """Tasks to train on."""
    return list(world().tasks[:TRAIN])


def held_out_tasks(count: int = HELD_OUT) -> list[Task]:
    """Tasks to evaluate with; no technician is away there for the same reason on the same day as in training."""
    return list(world().tasks[TRAIN : TRAIN + count])


def rows(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Rows for a trainer."""
    return [
        {
            "prompt": opening(task),
            "environment_id": world().id,
            "environment_hash": world().content_hash,
            "task_id": task.id,
            "seed": number,
        }
        for number, task in enumerate(tasks)
    ]


def opening(task: Task) -> list[dict[str, str]]:
    """The messages that an episode begins with."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.prompt}]


def short_thought(call: Call | None, turn: int) -> str:
    """One word, since the protocol wants a thought."""
    return "next" if call is not None or turn == 0 else "done"


def tokenizer(vocabulary: int = 600) -> Any:
    """A tokenizer that learnt what is written and read in an episode, 579 tokens in all."""
    return tiny.make_tokenizer(_texts(), vocabulary)


def _texts() -> list[str]:
    from awm_hub.policy import protocols

    listing = protocols.listing(protocols.Naming(tools=world().tools))
    person = '{{"depot_code":"{}","full_name":"{}","id":{},"phone":"-"}},'
    people = [person.format(DEPOTS[1 + place % 3], name, place) for place, name in technicians()]
    return [
        *([SYSTEM, listing, tiny.listing_tools(), "user\nassistant\nsystem\n"] * 20),
        *(text for task in world().tasks[:TRAIN] for text in _texts_of(task)),
        *(people * 40),
    ]


def _texts_of(task: Task) -> list[str]:
    calls = [tiny.using(call.tool, **call.arguments) for call in task.solution or ()]
    return [task.prompt, *calls, '{"affected_visits":[],"id":6,"technician_id":7}', tiny.answering("Done.")]


def _bare(tool: ToolSpec) -> ToolSpec:
    """A tool whose schema names the arguments that are used here, and nothing else."""
    return replace(tool, description="", input_schema={"required": list(ARGUMENTS[tool.name])}, output_schema=None)


def _task(environment_id: str, number: int, what: tuple[int, str, str], draw: random.Random) -> Task:
    """A technician is away on a day; names, ids and depots are dealt out anew, so that he is there to be away."""
    who, kind, day = what
    ids = [place for place, _ in technicians()]
    names = [name for _, name in technicians()]
    at, homes = 0, {}
    while at not in homes or any(place == at and first <= day <= last for place, first, last in _absences()):
        dealt = draw.sample(names, len(names))
        homes = dict(zip(draw.sample(ids, PRESENT), itertools.cycle(DEPOTS), strict=False))
        at = ids[dealt.index(names[who])]
    called = " ".join(f"WHEN {place} THEN '{name}'" for place, name in zip(ids, dealt, strict=True))
    housed = " ".join(f"WHEN {place} THEN {depot}" for place, depot in homes.items())
    return Task(
        id=f"{environment_id}/absence_{number}",
        instruction=f"{names[who]} of {DEPOTS[homes[at]]}: {kind} on {day}.",
        kind="change",
        setup=(
            f"UPDATE employees SET full_name = CASE id {called} END, depot_id = CASE id {housed} ELSE 1 END,"
            f" is_active = id IN ({', '.join(map(str, homes))}), phone = '-'"
            f" WHERE id IN ({', '.join(map(str, ids))})",
        ),
        solution=(
            Call(tool="list_technicians", arguments={"depot_code": DEPOTS[homes[at]]}),
            Call(
                tool="record_absence",
                arguments={"technician_id": at, "first_day": day, "last_day": day, "kind": kind},
            ),
        ),
    )
