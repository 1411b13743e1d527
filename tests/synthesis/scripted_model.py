"""A model that writes one small, right environment, whatever the name, and solves its tasks.

It knows by the request which stage asks, and keeps the name in the title and in the tasks, so that no two environments
are asked about in the same words. What is told to it in `slips` it gets wrong at first: a text in place of the first
answer of a stage, or several in turn. It works behind the loopback endpoint and as a writer of batch answers.
"""

import dataclasses
import datetime as dt
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from endpoint import Body, Reply, calls, completion, says
from synthesis.drafting import VERIFIERS, draft_of, facts

from awm_hub.synthesis import products
from awm_hub.synthesis.drafts import Draft, Sizes
from awm_hub.synthesis.running import CLOCK
from awm_hub.synthesis.stages import STAGES_BY_NAME

SIZES = Sizes(tables=2, rows=5, tools=3, tasks=2)
DUE, FERN = "due_today", "move_and_water_the_fern"
_SIGNS = {
    "# Your task: the scenario": "scenario",
    "# Your task: what the user asks": "task",
    "# Your task: the database": "database",
    "# Your task: the sample data": "sample_data",
    "# Design the toolset": "toolset",
    "# Write the tools": "code",
    "# Write the FastAPI module": "code",
    "Write the verification of every task": "verification",
}
_RULES = (
    "- Water a plant at most once a day.",
    "- Plants that need water come before all others, the most urgent first.",
    "- Only plants that are named are moved to another room.",
)
_API = (Path(__file__).parent / "plants_api.txt").read_text(encoding="utf-8")
_SOLVING: dict[str, list[Any]] = {
    "Which plants": [[("list_plants", {"only_due": True})], '["Fern", "Monstera"]'],
    "Move the fern": [
        [("list_plants", {})],
        [("move_plant", {"plant_id": 3, "room": "Kitchen"}), ("water_plant", {"plant_id": 3})],
        "Done.",
    ],
}

Slips = Mapping[str, Sequence[str | Reply]]
"""Stage → wrong answers, one after the other; `solution` → of each task's first turns, `arbiter` → of the arbiter's."""


def shifted(text: str) -> str:
    """A text with its days as far from the clock of a run as they were from 2 March 2026."""
    moved = CLOCK.date() - dt.date(2026, 3, 2)
    return re.sub(r"2026-\d\d-\d\d", lambda found: str(dt.date.fromisoformat(found[0]) + moved), text)


def plants(title: str = "Plant Care", *, interface: str = "functions") -> Draft:
    """The draft that the model has in mind for a name."""
    draft = dataclasses.replace(draft_of(), clock=CLOCK)
    more = f" Nothing else is to change at {title} on this occasion."
    tasks = {slug: {**told, "instruction": told["instruction"] + more} for slug, told in draft.tasks.items()}
    description = draft.scenario["description"] + " Its keeper waters them by hand and moves them between rooms." * 3
    told = {**draft.scenario, "title": title, "description": description, "rules": "\n".join(_RULES)}
    draft = draft.having("scenario", {key: json.dumps(value) for key, value in told.items()})
    draft = draft.having("task", {slug: json.dumps(told) for slug, told in tasks.items()})
    draft = draft.having("sample_data", {name: shifted(text) for name, text in draft.parts("sample_data").items()})
    verified = {f"task:{slug}": json.dumps(told) for slug, told in facts().items()}
    draft = draft.having("verification", verified | products.python_parts(shifted(VERIFIERS)))
    return draft if interface == "functions" else draft.having("code", products.python_parts(_API))


def answer_of(stage: str, draft: Draft | None = None) -> str:
    """The right answer to the request for a stage's product."""
    return STAGES_BY_NAME[stage].render((draft or plants()).parts(stage))


def stage_of(body: Body) -> str:
    """Which stage asks: one of the written ones, `solution`, `arbiter`, `suitability` or `invent`."""
    asked = str(body["messages"][1]["content"]) if len(body["messages"]) > 1 else ""
    found = next((stage for sign, stage in _SIGNS.items() if sign in asked), None)
    if found is not None:
        return found
    if body.get("tools"):
        return "solution"
    if "The scenarios, one on a line" in asked:
        return "suitability"
    return "invent" if "Invent " in asked else "arbiter"


def title_of(body: Body) -> str:
    """The name of the environment that a request is about; empty where it is about none."""
    text = "\n".join(str(message.get("content") or "") for message in body["messages"])
    found = re.search(
        r'^- Name: (.+)$|^"title": "([^"]+)"|Nothing else is to change at (.+?) on this', text, re.MULTILINE
    )
    return next(filter(None, found.groups())) if found else ""


def model(slips: Slips | None = None) -> Callable[[Body], Reply]:
    """A script for the loopback endpoint.

    The same request gets the same answer, unless a stage has several slips.
    """
    given: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()

    def answer(body: Body) -> Reply:
        stage = stage_of(body)
        wrong = (slips or {}).get(stage, ())
        with lock:
            number = min(_number_of(body), 1)
            if number or stage not in STAGES_BY_NAME:
                given[stage, title_of(body)] += 1
                number = given[stage, title_of(body)] - (stage not in STAGES_BY_NAME)
        if number < len(wrong):
            slip = wrong[number]
            return says(slip) if isinstance(slip, str) else slip
        return _right(stage, body)

    return answer


def batch_lines(path: Path, script: Callable[[Body], Reply], *, is_vllm: bool = False) -> list[dict[str, Any]]:
    """Answers to a file of requests, as OpenAI's batches have them, or as `vllm run-batch` writes them."""
    found = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        body = completion(script(line["body"]), "m-0815")
        response: dict[str, Any] = {"status_code": 200, "request_id": f"r-{len(found)}", "body": body}
        told: dict[str, Any] = {
            "id": f"b-{len(found)}",
            "custom_id": line["custom_id"],
            "response": response,
            "error": None,
        }
        if is_vllm:  # https://github.com/vllm-project/vllm, vllm/entrypoints/openai/run_batch.py
            message = {"reasoning_content": None, "tool_calls": [], "refusal": None, **body["choices"][0]["message"]}
            choice = {**body["choices"][0], "message": message, "logprobs": None, "stop_reason": None}
            told["response"] = {**response, "body": {**body, "choices": [choice], "prompt_logprobs": None}}
            told["id"] = f"vllm-{len(found)}"
        found.append(told)
    return found


def put_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write a file of lines of JSON."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _number_of(body: Body) -> int:
    """0 for a first request, more for a correction."""
    return len(body["messages"]) // 2 - 1


def _right(stage: str, body: Body) -> Reply:
    if stage in STAGES_BY_NAME:
        is_api = "# Write the FastAPI module" in str(body["messages"][1]["content"])
        return says(answer_of(stage, plants(title_of(body), interface="fastapi" if is_api else "functions")))
    if stage == "solution":
        return _solving(body)
    if stage == "suitability":
        names = re.findall(r'^\{"name": ("[^"]*")', body["messages"][1]["content"], re.MULTILINE)
        told = {"suitability": "high", "reason": "Records.", "category": "productivity"}
        return says(json.dumps({json.loads(name): told for name in names}))
    return says(json.dumps({"at_fault": "solution", "reason": "It missed the point."}))


def _solving(body: Body) -> Reply:
    asked = next(str(m["content"]) for m in body["messages"] if m["role"] == "user")
    steps = next(found for sign, found in _SOLVING.items() if sign in asked)
    step = steps[min(sum(m["role"] == "assistant" for m in body["messages"]), len(steps) - 1)]
    return says(step) if isinstance(step, str) else calls(*step)
