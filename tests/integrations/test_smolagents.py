"""smolagents agents work on live instances, and what they did is a trajectory like any other."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="needs the extra `agents`")

from integrations.scripted import ScriptedModel, calling, coding
from making import make_environment, notes_request
from smolagents import CodeAgent, ToolCallingAgent

import awm_hub as awm
from awm_hub.environment import Environment, ToolSpec
from awm_hub.integrations.smolagents import ToolCallFailed, answer_text, run_agent, tools_of
from awm_hub.runtime import Instance
from awm_hub.trajectory import ToolResult, Trajectory

QUIET = {"verbosity_level": -1}


class Noted:
    """Tools whose calls are written down and answered with a prepared result."""

    def __init__(self, *specs: ToolSpec, result: ToolResult | None = None) -> None:
        self.specs, self.result = specs, result or ToolResult(type="ok", value="done")
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    def list_tools(self) -> Sequence[ToolSpec]:
        """The toolset."""
        return self.specs

    def call_tool(self, name: str, arguments: Mapping[str, Any], /) -> ToolResult:
        """The prepared result."""
        self.calls.append((name, arguments))
        return self.result


def spec(name: str = "tool", required: Sequence[str] = (), **parameters: Any) -> ToolSpec:
    """A tool with these parameters."""
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    return ToolSpec(name=name, description="d", input_schema=schema)


def adapted(*specs: ToolSpec, **settings: Any) -> tuple[list[Any], Noted]:
    """Adapted tools, and what was called."""
    noted = Noted(*specs, **settings)
    return tools_of(noted), noted


def attempted(instance: Instance, *script: Any, kind: Any = ToolCallingAgent, **settings: Any) -> Trajectory:
    """What a scripted agent does."""
    model = ScriptedModel(*script)
    return run_agent(lambda tools: kind(tools=tools, model=model, **QUIET), instance, **settings)


def test_parameters_named_like_words_of_python_can_be_passed() -> None:
    texts = {name: {"type": "string"} for name in ("class", "from", "self")}
    (tool,), noted = adapted(spec("reserved_words", ["class"], **texts))
    tool(**{"class": "A", "from": "B", "self": "C"}, sanitize_inputs_outputs=True)
    assert noted.calls == [("reserved_words", {"class": "A", "from": "B", "self": "C"})]
    assert 'pass class, from as **{"class": …, "from": …}' in tool.to_code_prompt()


def test_names_that_python_does_not_allow_are_changed_and_stay_distinct() -> None:
    tools, noted = adapted(*(spec(name) for name in ("get-item", "get.item", "import", "9lives", "final_answer")))
    assert [tool.name for tool in tools] == ["get_item", "get_item_", "import_", "_9lives", "final_answer_"]
    for tool in tools:
        tool()
    assert [name for name, _ in noted.calls] == ["get-item", "get.item", "import", "9lives", "final_answer"]


def test_arguments_may_be_passed_by_position_or_as_one_object() -> None:
    (tool,), noted = adapted(spec("tool", ["b"], a={"type": "string"}, b={"type": "integer"}))
    tool(1, "x")
    tool({"b": 2})
    tool({"b": 3, "c": 4})
    assert [arguments for _, arguments in noted.calls] == [{"b": 1, "a": "x"}, {"b": 2}, {"b": {"b": 3, "c": 4}}]
    with pytest.raises(ToolCallFailed, match="given twice: b"):
        tool(1, b=2)
    with pytest.raises(ToolCallFailed, match="the tool has 2 parameters"):
        tool(1, 2, 3)


def test_a_lone_object_for_a_parameter_that_takes_objects_is_that_parameter() -> None:
    (tool,), noted = adapted(spec("tool", ["fields"], fields={"type": "object"}))
    tool({"fields": 1})
    tool({})
    assert [arguments for _, arguments in noted.calls] == [{"fields": {"fields": 1}}, {"fields": {}}]


def test_none_leaves_out_a_parameter_that_accepts_no_null() -> None:
    parameters = {"limit": {"type": "integer"}, "due": {"type": ["string", "null"]}, "any": {}}
    (tool,), noted = adapted(spec("tool", ["id"], id={"type": "integer"}, **parameters))
    tool(id=None, limit=None, due=None, any=None)
    assert noted.calls == [("tool", {"id": None, "due": None, "any": None})]


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "half \ud83c", object()])
def test_what_json_has_no_form_for_is_refused_before_the_call(value: object) -> None:
    (tool,), noted = adapted(spec("tool", x={}))
    with pytest.raises(ToolCallFailed, match=r"invalid_call \(invalid_arguments\)"):
        tool(x=value)
    assert noted.calls == []


def test_whatever_is_not_ok_is_an_error_with_its_text() -> None:
    refused = ToolResult(type="refused", code="not_found", message="no such loan")
    (tool,), _ = adapted(spec(), result=refused)
    with pytest.raises(ToolCallFailed) as caught:
        tool()
    assert str(caught.value) == "refused (not_found): no such loan"
    assert caught.value.result == refused


def test_a_tool_calling_agent_solves_a_task(notes_environment: Environment) -> None:
    task = notes_environment.task("jars_for_jam")
    create, search = [(call.tool, call.arguments) for call in task.solution or ()]
    with awm.launch(notes_environment, task=task.slug) as instance:
        found = attempted(
            instance,
            calling(create, thought="First the note."),
            calling(search),
            calling(("final_answer", {"answer": {"note": 8, "shop": 4}})),
        )
    assert (found.termination, found.answer) == ("answered", '{"note":8,"shop":4}')
    assert [(s.tool, s.thought, s.tokens) for s in found.steps] == [
        ("create_note", "First the note.", 7),
        ("search_notes", None, 7),
    ]
    assert awm.judge(found, environment=notes_environment).outcome == "COMPLETED"
    assert {key: found.usage[key] for key in ("prompt_tokens", "completion_tokens", "requests")} == {
        "prompt_tokens": 300,
        "completion_tokens": 21,
        "requests": 3,
    }
    assert found.policy | {"smolagents": ""} == {
        "kind": "smolagents",
        "agent": "ToolCallingAgent",
        "model": "scripted",
        "model_class": "ScriptedModel",
        "max_steps": 20,
        "is_strict": False,
        "smolagents": "",
    }


def test_a_code_agent_gets_values_and_can_catch_a_refusal(notes_environment: Environment) -> None:
    source = """
open_notes = search_notes(status="open")
try:
    get_note(99)
except Exception as error:
    print(error)
late = [note for note in open_notes if note["due_on"] and note["due_on"] < "2026-03-02"]
final_answer(len(late))
"""
    with awm.launch(notes_environment, task="overdue") as instance:
        found = attempted(instance, coding(source, "Count them."), kind=CodeAgent)
    assert [(s.tool, s.result.type) for s in found.steps] == [("search_notes", "ok"), ("get_note", "refused")]
    assert (found.steps[0].thought or "").startswith("Thought: Count them.")
    assert (found.answer, found.termination) == ("1", "answered")
    assert "refused (not_found): no note 99" in found.messages[-1]["content"]
    assert awm.judge(found, environment=notes_environment).outcome == "COMPLETED"


def test_the_agent_is_told_scenario_rules_date_and_the_form_of_the_answer(notes_environment: Environment) -> None:
    with awm.launch(notes_environment, task="overdue") as instance:
        found = attempted(instance, calling(("final_answer", {"answer": "1"})))
    task = next(m["content"] for m in found.messages if m["role"] == "user")
    assert notes_environment.briefing in task
    assert task.endswith("End with JSON: <integer>")


def test_an_agent_that_runs_out_of_messages_is_cut_off_and_its_last_word_kept(notes_environment: Environment) -> None:
    with awm.launch(notes_environment, task="overdue") as instance:
        script = [calling(("list_notebooks", {})), calling(("list_notebooks", {})), calling(thought="I think 3.")]
        found = attempted(instance, *script, max_steps=2)
    assert (found.termination, found.answer, len(found.steps)) == ("max_turns", "I think 3.", 2)
    assert awm.judge(found, environment=notes_environment).outcome == "AGENT_ERROR"


def test_a_model_that_cannot_be_reached_ends_the_run_and_what_was_done_stays(notes_environment: Environment) -> None:
    with awm.launch(notes_environment, task="overdue") as instance:
        found = attempted(instance, calling(("get_note", {"note_id": 1})), ConnectionError("refused, key sk-123"))
    assert (found.termination, found.answer, len(found.steps)) == ("endpoint_error", None, 1)
    assert found.usage["error"]["type"] == "ConnectionError"
    assert "sk-123" not in str(found.to_dict())


def test_calls_that_smolagents_turns_down_reach_no_environment_and_are_in_the_messages(
    notes_environment: Environment,
) -> None:
    script = [calling(("get_note", {"note_id": "one"})), calling(("no_tool", {})), calling(("final_answer", {}))]
    with awm.launch(notes_environment, task="overdue") as instance:
        found = attempted(instance, *script, calling(("final_answer", {"answer": None})))
    assert (found.steps, found.answer, found.termination) == ((), None, "answered")
    text = "\n".join(m["content"] for m in found.messages)
    assert "Argument note_id has type 'string' but should be 'integer'" in text
    assert "Unknown tool no_tool" in text


async def test_a_fault_ends_a_strict_run_and_only_that() -> None:
    code = 'def fail(db):\n    """Fail."""\n    raise KeyError("x")\n'
    task = awm.Task(id="made/t", instruction="Do it.", kind="change", solution=())
    environment = await make_environment(code, notes_request(code), tasks=(task,))
    script = [calling(("fail", {})), calling(("final_answer", {"answer": "done"}))]
    for is_strict, ending in ((True, "environment_fault"), (False, "answered")):
        with awm.launch(environment, task="t") as instance:
            found = attempted(instance, *script, is_strict=is_strict)
        assert (found.termination, found.steps[0].result.type) == (ending, "fault")


def test_an_agent_made_before_is_used_with_the_tools_it_has(notes_environment: Environment) -> None:
    with awm.launch(notes_environment, task="overdue") as instance:
        model = ScriptedModel(calling(("final_answer", {"answer": 1})))
        agent = ToolCallingAgent(tools=tools_of(instance)[:2], model=model, **QUIET)
        found = run_agent(agent, instance)
    assert model.tools == ["list_notebooks", "search_notes", "final_answer"]
    assert found.answer == "1"


def test_an_instance_without_a_task_is_refused(notes_environment: Environment) -> None:
    with awm.launch(notes_environment) as instance, pytest.raises(awm.UsageError, match="has no task"):
        run_agent(lambda tools: None, instance)


def test_a_run_replays_to_the_same_database(notes_environment: Environment) -> None:
    with awm.launch(notes_environment, task="postpone_plumber", seed=5) as instance:
        calls = [(c.tool, c.arguments) for c in instance.task.solution or ()] if instance.task else []
        found = attempted(instance, calling(calls[0]), calling(calls[1]), calling(("final_answer", {"answer": "ok"})))
    with awm.launch(notes_environment, task="postpone_plumber", seed=5) as again:
        for step in found.steps:
            assert again.call_tool(step.tool, step.arguments) == step.result
        assert again.trajectory().database_delta == found.database_delta


@pytest.mark.parametrize(
    ("output", "text"),
    [("8.55", "8.55"), (8.55, "8.55"), (["b", "a"], '["b","a"]'), (None, None), ({1, 2} & {1}, "{1}")],
)
def test_a_final_answer_is_read_as_text_or_as_json(output: object, text: str | None) -> None:
    assert answer_text(output) == text


def test_every_tool_of_every_bundled_environment_adapts() -> None:
    environments = awm.load()
    for name in environments:
        tools, _ = adapted(*environments[name].tools)
        assert [tool.name for tool in tools] == [tool.name for tool in environments[name].tools]
        assert all(tool.to_code_prompt() and tool.to_tool_calling_prompt() for tool in tools)
