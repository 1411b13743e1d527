"""smolagents on live instances: an environment's tools as smolagents tools, and an agent's run as a trajectory.

`tools_of` adapts the tools; an agent with them works like any other. `run_agent` lets an agent attempt the instance's
task and returns the record, to be judged like every other::

    with awm.launch(environment, task="owed_by_ingeborg") as instance:
        trajectory = run_agent(lambda tools: ToolCallingAgent(tools=tools, model=model), instance)
    print(awm.judge(trajectory).outcome)

The adapter is our own: those around mcpadapt take a failed call for a success and lose parameters. Calls that
smolagents itself turns down, as it checks types before a tool runs, reach no environment and are no steps; the agent
reads why, and they are in `messages`. A CodeAgent runs what the model writes on this machine, in smolagents' own
interpreter, which is no sandbox: texts of a row that you do not trust can steer a model.
"""

import functools
import keyword
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Protocol

from awm_hub.canonical import from_json, to_json
from awm_hub.environment import ToolSpec
from awm_hub.errors import RecordError, UsageError
from awm_hub.integrations.inputs import awkward_names, inputs_of, kinds_of, properties_of
from awm_hub.rollouts import recording
from awm_hub.runtime import Instance
from awm_hub.trajectory import Step, ToolResult, Trajectory

_ANSWERING = "final_answer"
"""smolagents' own tool; one of the environment must not take its place."""
_ROLES = {"tool-call": "assistant", "tool-response": "user"}
"""smolagents' roles that chat endpoints do not know, as smolagents itself translates them for them."""


class ToolSource(Protocol):
    """What has tools and calls them: an instance, or `remote.ServedTools`."""

    def list_tools(self) -> Sequence[ToolSpec]:
        """The toolset."""

    def call_tool(self, name: str, arguments: Mapping[str, Any], /) -> ToolResult:
        """Call a tool."""


class ToolCallFailed(Exception):
    """A call came to nothing. smolagents shows the message to the agent, whose code may also catch it."""

    def __init__(self, result: ToolResult) -> None:
        code = f" ({result.code})" if result.code else ""
        super().__init__(f"{result.type}{code}: {result.message}")
        self.result = result


def tools_of(source: ToolSource) -> list[Any]:
    """The tools of an instance as smolagents tools.

    A call that is `ok` returns the value, any other raises `ToolCallFailed`. Names that Python does not allow are
    changed (`get-item` becomes `get_item`), and so is `final_answer`, which smolagents has itself. None for a parameter
    that may be left out and accepts no null leaves it out.

    Raises:
        UsageError: smolagents is not installed.
    """
    make = _tool_class()
    specs = source.list_tools()
    return [make(spec, name, source) for spec, name in zip(specs, _python_names(specs), strict=True)]


def run_agent(agent: Any, instance: Instance, *, max_steps: int | None = None, is_strict: bool = False) -> Trajectory:
    """Let a smolagents agent attempt the task of an instance; the record of it, not judged yet.

    However the agent ends, the record is made: `answered`; `max_turns`, with the answer that smolagents then asks for;
    `endpoint_error`, when the model could not be reached; `environment_fault`; `stopped`, when it was interrupted.

    Args:
        agent: An agent that has the instance's tools, or a function from the tools to an agent.
        instance: A new instance, launched with a task.
        max_steps: Messages of the model at most; default: what the agent was made with. The paper allows 20 (§5).
        is_strict: Stop at the first fault of the environment (rule 6 of the paper's §4).

    Raises:
        UsageError: smolagents is not installed, or the instance has no task.
        Exception: what the agent's own code raises, smolagents' errors aside.
    """
    base = _library().MultiStepAgent
    if instance.task is None:
        raise UsageError("the instance has no task", next_step="launch(environment, task=…)")
    acting = agent if isinstance(agent, base) else agent(tools_of(instance))
    most = int(acting.max_steps) if max_steps is None else max_steps
    run = _Run(agent=acting, instance=instance, max_steps=most, is_strict=is_strict)
    started = time.perf_counter()
    run.follow(f"{instance.environment.briefing}\n\n{instance.task.prompt}")
    return run.trajectory(time.perf_counter() - started)


def answer_text(output: Any) -> str | None:
    """A final answer as the text that a judge reads: texts as they are, other values as JSON."""
    if output is None or isinstance(output, str):
        return None if output is None else str(output)
    try:
        return to_json(output)
    except RecordError:
        return str(output)


@dataclass
class _Run:
    """One run of an agent, and what has to be known of it afterwards."""

    agent: Any
    instance: Instance
    max_steps: int
    is_strict: bool
    termination: str = "stopped"
    error: str | None = None
    """Kind of the error that ended the run."""
    thoughts: dict[int, tuple[str | None, int | None]] = field(default_factory=dict)
    """By the position of a message's first call: what the model wrote, and its tokens."""

    def follow(self, prompt: str) -> None:
        """Run the agent to its end, however that comes."""
        library = _library()
        events = self.agent.run(prompt, stream=True, max_steps=self.max_steps)
        seen = 0
        try:
            for event in events:
                if isinstance(event, library.ActionStep):
                    seen = self._note(event, seen)
                    if self.is_strict and any(s.result.type == "fault" for s in self.instance.steps):
                        self.termination = "environment_fault"
                        return
                elif isinstance(event, library.FinalAnswerStep):
                    self._end(event.output)
        except library.AgentGenerationError as error:
            self.termination, self.error = "endpoint_error", type(error.__cause__ or error).__name__
        except library.AgentError as error:
            self.termination, self.error = "stopped", type(error).__name__
        finally:
            events.close()

    def _note(self, step: Any, seen: int) -> int:
        """Keep what the model wrote before the calls that came since `seen`; how many there are by now."""
        count = len(self.instance.steps)
        if count > seen:
            usage = step.token_usage
            self.thoughts[seen] = (_thought(step), usage.output_tokens if usage else None)
        return count

    def _end(self, output: Any) -> None:
        last = self.agent.memory.steps[-1]
        is_cut = isinstance(getattr(last, "error", None), _library().AgentMaxStepsError)
        self.termination = "max_turns" if is_cut else "answered"
        self.instance.submit(answer_text(output))

    def trajectory(self, seconds: float) -> Trajectory:
        """The record."""
        found = self.instance.trajectory()
        return replace(
            found,
            policy=_described(self.agent, self.max_steps, self.is_strict),
            steps=tuple(self._with_thought(at, step) for at, step in enumerate(found.steps)),
            termination=self.termination,
            usage=_usage(self.agent.memory.steps, seconds) | self._failure(),
            messages=tuple(_message(m) for m in self.agent.write_memory_to_messages()),
        )

    def _failure(self) -> dict[str, Any]:
        """What ended the run, without the error's text: a client may have put a key into it."""
        message = "smolagents says more on the terminal"
        return {} if self.error is None else {"error": {"type": self.error, "message": message}}

    def _with_thought(self, at: int, step: Step) -> Step:
        thought, tokens = self.thoughts.get(at, (step.thought, step.tokens))
        return replace(step, thought=thought, tokens=tokens)


def _described(agent: Any, max_steps: int, is_strict: bool) -> dict[str, Any]:
    """What is recorded of an agent: never its client, which holds a key."""
    return {
        "kind": "smolagents",
        "agent": type(agent).__name__,
        "model": getattr(agent.model, "model_id", None),
        "model_class": type(agent.model).__name__,
        "max_steps": max_steps,
        "is_strict": is_strict,
        "smolagents": _library().version,
    }


def _usage(steps: Iterable[Any], seconds: float) -> dict[str, Any]:
    """Tokens and requests over all messages of a run; None where the model did not count tokens."""
    asked = [s for s in steps if getattr(s, "model_output_message", None) or getattr(s, "token_usage", None)]
    counted = [s.token_usage for s in asked if s.token_usage]
    is_known = bool(counted) and len(counted) == len(asked)
    return {
        "turns": len(asked),
        "prompt_tokens": sum(u.input_tokens for u in counted) if is_known else None,
        "completion_tokens": sum(u.output_tokens for u in counted) if is_known else None,
        "cost_usd": None,
        "requests": len(asked),
        "seconds": seconds,
    }


def _thought(step: Any) -> str | None:
    """What the model wrote beside its calls, its reasoning before that where the endpoint gives it apart."""
    written = _text(step.model_output)
    raw = getattr(step.model_output_message, "raw", None)
    choices = getattr(raw, "choices", None) or [None]
    message = getattr(choices[0], "message", None)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    parts = [part.strip() for part in (reasoning, written) if isinstance(part, str)]
    return recording.text("\n\n".join(part for part in parts if part)) or None


def _message(message: Any) -> dict[str, Any]:
    """A message of an agent's memory in chat form."""
    role = str(getattr(message.role, "value", message.role))
    return {"role": _ROLES.get(role, role), "content": recording.text(_text(message.content) or "")}


def _text(content: Any) -> str | None:
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)
    return None if content is None else str(content)


def _python_names(specs: Sequence[ToolSpec]) -> list[str]:
    """A name for each tool that smolagents takes: an identifier, no keyword, and no other tool's."""
    names: list[str] = []
    for spec in specs:
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in spec.name)
        name = f"_{name}" if name[:1].isdigit() else name
        while keyword.iskeyword(name) or name == _ANSWERING or name in names:
            name = f"{name}_"
        names.append(name)
    return names


def _tool_description(spec: ToolSpec) -> str:
    """The description, and how Python code passes parameters that it cannot name."""
    names = awkward_names(spec.input_schema)
    if not names:
        return spec.description
    pairs = ", ".join(f"{to_json(name)}: …" for name in names)
    return f"{spec.description}\n\nIn Python code, pass {', '.join(names)} as **{{{pairs}}}.".strip()


@functools.cache
def _library() -> Any:
    """The names of smolagents that are used here."""
    try:
        import smolagents
        from smolagents import agent_types, memory, utils
    except ImportError as error:
        raise UsageError("smolagents is not installed", next_step="pip install 'awm-hub[agents]'") from error
    return SimpleNamespace(
        MultiStepAgent=smolagents.MultiStepAgent,
        Tool=smolagents.Tool,
        ActionStep=smolagents.ActionStep,
        FinalAnswerStep=memory.FinalAnswerStep,
        AgentType=agent_types.AgentType,
        AgentError=utils.AgentError,
        AgentGenerationError=utils.AgentGenerationError,
        AgentMaxStepsError=utils.AgentMaxStepsError,
        version=smolagents.__version__,
    )


@functools.cache
def _tool_class() -> Callable[[ToolSpec, str, ToolSource], Any]:
    """The adapter's class; made on first use, since its base is in smolagents."""
    library = _library()

    class EnvironmentTool(library.Tool):  # type: ignore[misc, name-defined]
        """A tool of an environment."""

        output_type = "object"
        skip_forward_signature_validation = True

        def __init__(self, spec: ToolSpec, name: str, source: ToolSource) -> None:
            super().__init__()
            self.spec, self.source = spec, source
            self.name = name
            self.description = _tool_description(spec)
            self.inputs = inputs_of(spec.input_schema)
            self._left_out = _parameters_left_out_by_none(spec.input_schema)

        # smolagents' own __call__ cannot take a parameter named `self` and reads a lone object as all arguments
        def __call__(self, /, *args: Any, sanitize_inputs_outputs: bool = False, **kwargs: Any) -> Any:
            return self._called(_bound(self.inputs, args, kwargs))

        def forward(self, /, *args: Any, **kwargs: Any) -> Any:
            return self._called(_bound(self.inputs, args, kwargs))

        def _called(self, arguments: dict[str, Any]) -> Any:
            raw = {k: v.to_raw() if isinstance(v, library.AgentType) else v for k, v in arguments.items()}
            given = {k: v for k, v in raw.items() if v is not None or k not in self._left_out}
            try:
                plain = from_json(to_json(given), "the arguments")
            except RecordError as error:
                raise ToolCallFailed(_invalid(error.message)) from error
            result = self.source.call_tool(self.spec.name, plain)
            if not result.is_ok:
                raise ToolCallFailed(result)
            return result.value

    return EnvironmentTool


def _parameters_left_out_by_none(schema: Mapping[str, Any]) -> frozenset[str]:
    """Parameters that may be left out and accept no null: smolagents' `nullable` promises that None will do."""
    required = schema.get("required") or ()
    parts = properties_of(schema).items()
    return frozenset(n for n, part in parts if n not in required and "null" not in (kinds_of(part) or ("null",)))


def _bound(inputs: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, those by position in the order of the inputs; a lone object holds them all."""
    names = list(inputs)
    if len(args) == 1 and not kwargs and _holds_all(args[0], inputs):
        return dict(args[0])
    if len(args) > len(names):
        raise ToolCallFailed(_invalid(f"{len(args)} arguments by position; the tool has {len(names)} parameters"))
    found = dict(zip(names, args, strict=False))
    if twice := sorted(found.keys() & kwargs.keys()):
        raise ToolCallFailed(_invalid(f"given twice: {', '.join(twice)}"))
    return {**found, **kwargs}


def _holds_all(value: Any, inputs: Mapping[str, Any]) -> bool:
    """Whether a lone positional value is meant as all arguments, as smolagents allows, and not as the first one."""
    if not isinstance(value, dict) or not all(name in inputs for name in value):
        return False
    kinds = next(iter(inputs.values()), {"type": "null"})["type"]
    return kinds != "any" and "object" not in ([kinds] if isinstance(kinds, str) else kinds)


def _invalid(message: str) -> ToolResult:
    return ToolResult(type="invalid_call", code="invalid_arguments", message=message)
