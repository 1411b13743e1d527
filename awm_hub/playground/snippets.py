"""Copyable ways to use one environment elsewhere: in Python, as an MCP server, with smolagents, to train on.

Names come from a dataset or from a visitor, so each is written as a literal of the language it stands in.
"""

import shlex
from dataclasses import dataclass
from pathlib import PurePath

from awm_hub.environment import Environment, Task, ToolSpec
from awm_hub.playground.sources import UPLOAD
from awm_hub.safetext import clean, json_text

_MODEL, _TRAINED = "Qwen/Qwen3-32B", "Qwen/Qwen3-4B"


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """One way."""

    title: str
    told: str
    """What it does, in a sentence."""
    language: str
    """As `gr.Code` names it."""
    code: str


def snippets(environment: Environment, dataset: str | None = None, task: Task | None = None) -> tuple[Snippet, ...]:
    """All ways to use an environment.

    Args:
        environment: Which.
        dataset: Repo on the Hub or folder; None: the set that comes with the package. A file that was uploaded lies
            elsewhere for whoever copies: a name without a folder is written.
        task: The task that is named; default: the environment's first one.
    """
    found = task or next(iter(environment.tasks), None)
    if dataset and dataset.endswith(".parquet"):
        dataset = PurePath(dataset).name
    if dataset and dataset.startswith(UPLOAD):
        dataset = "environments.parquet"
    return (
        Snippet(
            title="Python",
            told="Launch a private instance, call its tools and judge what happened.",
            language="python",
            code=_python(environment, dataset, found),
        ),
        Snippet(
            title="MCP server",
            told="Serve it over HTTP to any client of MCP, one instance for each name after `?key=`.",
            language="shell",
            code=_serve(environment, dataset),
        ),
        Snippet(
            title="MCP client",
            told="For Claude Desktop, Cursor, LM Studio and others; the client starts the server itself.",
            language="json",
            code=_client(environment, dataset, found),
        ),
        Snippet(
            title="smolagents",
            told="An agent attempts a task; a judge says whether it did it.",
            language="python",
            code=_smolagents(environment, dataset, found),
        ),
        Snippet(
            title="TRL",
            told="Train with GRPO; training/README.md has recipes for real runs.",
            language="python",
            code=_trl(environment, dataset),
        ),
    )


def _literal(value: object) -> str:
    """A text or a flat object as Python and JSON both write it, on one line."""
    return json_text(value).replace('":', '": ').replace(',"', ', "') if isinstance(value, dict) else json_text(value)


def _loaded(environment: Environment, dataset: str | None) -> str:
    return f"awm.load({_literal(dataset) if dataset else ''})[{_literal(environment.id)}]"


def _python(environment: Environment, dataset: str | None, task: Task | None) -> str:
    lines = [
        "# pip install awm-hub",
        "import awm_hub as awm",
        "",
        f"environment = {_loaded(environment, dataset)}",
        "print(environment.briefing)",
    ]
    if task is not None:
        lines += [f"task = environment.task({_literal(task.slug)})", "print(task.prompt)  # what an agent is given"]
    lines.append(f"with awm.launch(environment{', task=task.slug' if task else ''}) as instance:")
    lines += ["    for tool in instance.list_tools():", "        print(tool.name, tool.input_schema)"]
    if (tool := _plain_tool(environment)) is not None:
        lines.append(f"    print(instance.call_tool({_literal(tool.name)}, {{}}).text())")
    lines.append("    print(instance.diff().to_dict())  # rows added, removed and changed")
    if task is not None:
        lines.append('    instance.submit("I have looked.")  # the last message of the agent')
        if is_decidable(task):
            lines.append("    print(awm.judge(instance.trajectory()).outcome)")
    return "\n".join(lines) + "\n"


def is_decidable(task: Task) -> bool:
    """Whether code alone judges it, without a model."""
    return task.solution is not None or task.verifier("decision") is not None


def _plain_tool(environment: Environment) -> ToolSpec | None:
    """A tool that reads and needs no arguments."""
    return next((t for t in environment.tools if t.effect == "read" and not t.input_schema.get("required")), None)


def _serve(environment: Environment, dataset: str | None) -> str:
    options = f" --dataset {shlex.quote(clean(dataset))}" if dataset else ""
    return (
        f"uvx awm-hub serve --port 8000{options}\n"
        f"# MCP URL: http://127.0.0.1:8000/{environment.id}/mcp?key=mine\n\n"
        f"# one instance for one client, over stdio\nuvx awm-hub serve --stdio {environment.id}{options}\n"
    )


def _client(environment: Environment, dataset: str | None, task: Task | None) -> str:
    arguments = ["awm-hub", "serve", "--stdio", environment.id]
    arguments += ["--task", task.slug] if task else []
    arguments += ["--dataset", dataset] if dataset else []
    settings = {"mcpServers": {environment.id: {"command": "uvx", "args": arguments}}}
    return json_text(settings, indent=2) + "\n"


def _smolagents(environment: Environment, dataset: str | None, task: Task | None) -> str:
    judged = (
        "print(awm.judge(trajectory).outcome)"
        if task is not None and is_decidable(task)
        else "print(trajectory.termination)  # needs a model as the judge: awm.LlmJudge"
    )
    named = f", task={_literal(task.slug)}" if task else ""
    return f"""\
# pip install 'awm-hub[agents]'
import awm_hub as awm
from awm_hub.integrations.smolagents import run_agent
from smolagents import InferenceClientModel, ToolCallingAgent

environment = {_loaded(environment, dataset)}
model = InferenceClientModel({_literal(_MODEL)})  # asks with your own HF_TOKEN
with awm.launch(environment{named}) as instance:
    trajectory = run_agent(lambda tools: ToolCallingAgent(tools=tools, model=model), instance)
print(trajectory.answer)
{judged}
"""


def _trl(environment: Environment, dataset: str | None) -> str:
    is_for_training = environment.split == "train" and environment.usage == "train"
    if is_for_training:
        filters = f"ids=[{_literal(environment.id)}]"
        reason = "this environment alone; leave `ids` out to train on all"
    else:
        filters = 'split="train", usage="train"'
        reason = f"{environment.id} is kept for evaluation: these are the others"
    first = f"{_literal(dataset)}, " if dataset else ""
    return f"""\
# pip install 'awm-hub[train]'
import awm_hub as awm
from awm_hub.training import simple
from trl import GRPOConfig

environments = awm.load({first}{filters})  # {reason}
with simple(environments, tasks={{"repeat": 100}}, log="trajectories") as spec:
    arguments = GRPOConfig(max_steps=100, num_generations=8, max_completion_length=8192)
    trainer = spec.trainer(model={_literal(_TRAINED)}, args=arguments)
    trainer.train()
"""
