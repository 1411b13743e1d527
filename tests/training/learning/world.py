"""A world small enough for a model of two hundred thousand numbers: two tools and one kind of task.

The environment is `field_service_1`: its database, its code in a sealed process and its verification are the real
ones. What is small is what a policy has to read. Two of its 38 tools are left, with bare schemas; `record_absence` is
one of the few writing tools whose result is short. The system prompt is one sentence in place of the protocol's 500
tokens. The tasks are made of one template over the seed's rows: a technician of a depot is away, always on the same
day. Their setup deals ids, names and depots out anew, so that an id cannot be remembered but has to be read in the
result of `list_technicians` and copied into the next call, as every agent does. Each task has a reference solution,
from which the environment's judge derives its decision: the changes must be exactly the solution's.

An episode that solves a task has four messages: `list_tools`, `list_technicians`, `record_absence`, and a last one that
ends the work. With a window of one turn the third and the fourth are written without the turns before the newest, that
is with histories unlike any that a policy saw which was trained on full ones.
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
WINDOW = Window(turns=1, head_turns=0)
"""One turn, and not even the first exchange, which the paper keeps: a task as small as this has little else to lose."""
FULL = Window()
MAX_TURNS = 6
KINDS = ("sick", "vacation", "training")
DAY = "2026-12-07"
"""Nobody is away then in the seed."""
DEPOTS = {1: "NORTH", 2: "EAST", 3: "SOUTH"}
ARGUMENTS = {"list_technicians": ("depot_code",), "record_absence": ("technician_id", "first_day", "last_day", "kind")}
TRAIN, HELD_OUT = 600, 256
"""Tasks to train on, and others to evaluate with."""
IMITATED = 360
"""Of the tasks to train on, those whose solutions are imitated; GRPO has the rest, which no policy knows by heart."""


@functools.cache
def technicians() -> tuple[tuple[int, str], ...]:
    """Ids and names of the seed's active technicians."""
    return _seed("SELECT id, full_name FROM employees WHERE role = 'technician' AND is_active ORDER BY id")


def _seed(sql: str) -> tuple[tuple[Any, ...], ...]:
    """Rows of the environment's seed."""
    import sqlite3

    database = sqlite3.connect(":memory:")
    database.deserialize(awm_hub.load()["field_service_1"].database)
    return tuple(database.execute(sql).fetchall())


@functools.cache
def world() -> Environment:
    """The environment with the tasks of this experiment: those to train on first, then the held-out and a short one."""
    found = awm_hub.load()["field_service_1"]
    draw = random.Random(0)
    requests = list(itertools.product(range(len(technicians())), KINDS, DEPOTS))
    draw.shuffle(requests)
    share = len(requests) * TRAIN // (TRAIN + HELD_OUT)
    places = [place for place, _ in technicians()]
    parts = [list(itertools.product(part, places)) for part in (requests[:share], requests[share:])]
    chosen = [what for part, count in zip(parts, (TRAIN, HELD_OUT), strict=True) for what in draw.sample(part, count)]
    tasks = [_task(found.id, number, request, at, draw) for number, (request, at) in enumerate(chosen)]
    tasks.append(_short_task(found.id, places[0]))
    tools = tuple(_bare(found.tool(name)) for name in ARGUMENTS)
    small = replace(found, tools=tools, tasks=tuple(tasks), description="", rules="", quality=None)
    return small.with_hash(found.content_hash)


def train_tasks() -> list[Task]:
    """Tasks to train on."""
    return list(world().tasks[:TRAIN])


def held_out_tasks() -> list[Task]:
    """Tasks to evaluate with; no technician of a depot is away there for the same reason as in training."""
    return list(world().tasks[TRAIN : TRAIN + HELD_OUT])


def short_task() -> Task:
    """A task of one call, for a test that has a minute; the experiment does not use it."""
    return world().tasks[TRAIN + HELD_OUT]


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


def tokenizer() -> Any:
    """A tokenizer that learnt what is written and read in an episode, 560 tokens in all."""
    return tiny.make_tokenizer(_texts(), 600)


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


def _task(environment_id: str, number: int, request: tuple[int, str, int], at: int, draw: random.Random) -> Task:
    """A technician is away; ids, names and depots are dealt out anew, so that he is where and who he has to be."""
    who, kind, depot = request
    ids = [place for place, _ in technicians()]
    names = [name for _, name in technicians()]
    others = draw.sample([name for name in names if name != names[who]], len(names) - 1)
    called = {at: names[who], **dict(zip([place for place in ids if place != at], others, strict=True))}
    elsewhere = draw.sample([place for place in ids if place != at], len(DEPOTS) - 1)
    homes = {at: depot, **dict(zip(elsewhere, [home for home in DEPOTS if home != depot], strict=True))}
    named = " ".join(f"WHEN {place} THEN '{name}'" for place, name in called.items())
    housed = " ".join(f"WHEN {place} THEN {home}" for place, home in homes.items())
    return Task(
        id=f"{environment_id}/absence_{number}",
        instruction=f"{names[who]} of {DEPOTS[depot]}: {kind} on {DAY}.",
        kind="change",
        setup=(
            f"UPDATE employees SET full_name = CASE id {named} END, depot_id = CASE id {housed} ELSE 1 END,"
            f" is_active = id IN ({', '.join(map(str, homes))}), phone = '-'"
            f" WHERE id IN ({', '.join(map(str, ids))})",
        ),
        solution=(
            Call(tool="list_technicians", arguments={"depot_code": DEPOTS[depot]}),
            Call(
                tool="record_absence",
                arguments={"technician_id": at, "first_day": DAY, "last_day": DAY, "kind": kind},
            ),
        ),
    )


def _short_task(environment_id: str, at: int) -> Task:
    """A technician is away, whose id is told."""
    absence = {"technician_id": at, "first_day": DAY, "last_day": DAY, "kind": KINDS[0]}
    return Task(
        id=f"{environment_id}/short",
        instruction=f"{at}: {KINDS[0]} on {DAY}.",
        kind="change",
        solution=(Call(tool="record_absence", arguments=absence),),
    )
