"""The programs that a card shows, about an environment that the dataset holds."""

from collections.abc import Sequence

from awm_hub.card.facts import EnvironmentFacts, TaskFacts

_SOLVING = """import json

import awm_hub as awm

environment = awm.load("{repo}")["{environment}"]
task = environment.task("{task}")
with awm.launch(environment, task=task.slug) as instance:
    for call in task.solution:
        instance.call_tool(call.tool, call.arguments)
    instance.submit(json.dumps(task.answer))
    print(awm.judge(instance.trajectory()).outcome)"""
_LOOKING = """import awm_hub as awm

environment = awm.load("{repo}")["{environment}"]
with awm.launch(environment, seed=0) as instance:
    for tool in instance.list_tools():
        print(tool.name, tool.effect)
    # instance.call_tool(name, arguments), snapshot, restore, fork, reset …
    print(instance.diff())"""
_PLAIN = """from datasets import load_dataset

environments = load_dataset("{repo}", split="{split}", streaming=True)  # complete rows
print(next(iter(environments))["id"])"""
_PLAIN_TASKS = """
tasks = load_dataset("{repo}", "tasks", split="{split}")  # light ones, for trainers
print(tasks[0]["prompt"])"""


def program(facts: Sequence[EnvironmentFacts], repo_id: str) -> str:
    """Launch an environment; where a solution is known, replay it and judge it."""
    for environment in sorted(facts, key=lambda e: (e.split != "train", e.id)):
        solved = next((t for t in environment.tasks if t.calls), None)
        if solved is not None:
            return _SOLVING.format(repo=repo_id, environment=environment.id, task=_slug(solved))
    first = min(facts, key=lambda e: (e.split != "train", e.id))
    return _LOOKING.format(repo=repo_id, environment=first.id)


def plain_program(facts: Sequence[EnvironmentFacts], repo_id: str) -> str:
    """Read both configs with `datasets` alone."""
    split = "train" if any(e.split == "train" for e in facts) else "test"
    has_tasks = any(e.tasks for e in facts if e.split == split)
    return (_PLAIN + (_PLAIN_TASKS if has_tasks else "")).format(repo=repo_id, split=split)


def _slug(task: TaskFacts) -> str:
    return task.id.rpartition("/")[2]
