"""A smolagents model that says what the test wrote down."""

from typing import Any

from smolagents import ChatMessage, MessageRole, Model
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
from smolagents.monitoring import TokenUsage


class ScriptedModel(Model):
    """Answers with prepared messages in their order, and keeps what it was asked."""

    def __init__(self, *script: ChatMessage | Exception) -> None:
        super().__init__(model_id="scripted")
        self.script = list(script)
        self.asked: list[Any] = []
        self.tools: list[str] = []

    def generate(self, messages: Any, tools_to_call_from: Any = None, **_: Any) -> ChatMessage:
        """The next prepared message; an exception is raised."""
        self.asked.append(messages)
        self.tools = [tool.name for tool in tools_to_call_from or ()]
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


def calling(*calls: tuple[str, Any], thought: str | None = None) -> ChatMessage:
    """A message with native calls."""
    made = [
        ChatMessageToolCall(
            id=f"call_{at}", type="function", function=ChatMessageToolCallFunction(name=name, arguments=arguments)
        )
        for at, (name, arguments) in enumerate(calls)
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, content=thought, tool_calls=made, token_usage=TokenUsage(100, 7))


def coding(source: str, thought: str = "Let me see.") -> ChatMessage:
    """A message with a block of code."""
    content = f"Thought: {thought}\n<code>\n{source}\n</code>"
    return ChatMessage(role=MessageRole.ASSISTANT, content=content, token_usage=TokenUsage(50, 9))
