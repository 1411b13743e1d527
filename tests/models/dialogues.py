"""The dialogues that the tiny model learns by heart, and what it has to have done with them afterwards."""

from pathlib import Path

import pytest
from endpoint import calls, playing, running_endpoint, says
from models.checkpoint import Exchange, calling, learn, thinking
from models.conftest import SOLUTION, TOKENIZER

import awm_hub as awm
from awm_hub.environment import Environment
from awm_hub.inference import Endpoint
from awm_hub.policy import ChatPolicy
from awm_hub.rollouts import attempt
from awm_hub.trajectory import Trajectory

ANSWER = ("Nothing is left to do.", "The note says done now.")
NATIVE = [(call.tool, call.arguments) for call in SOLUTION]
TEXT = [("list_tools", {}), *(("call_tool", {"tool_name": name, "arguments": given}) for name, given in NATIVE)]
MADE = {"native": NATIVE, "text": TEXT}
"""The calls of each protocol."""


async def attempted(environment: Environment, protocol: str, base_url: str, model: str = "m") -> Trajectory:
    """What the model behind an endpoint does."""
    async with (
        Endpoint(model, base_url=base_url, timeout_s=300) as endpoint,
        await awm.aio.launch(environment, task="mark_second") as instance,
    ):
        return await attempt(instance, ChatPolicy(endpoint, protocol=protocol))


async def recorded(environment: Environment, protocol: str) -> list[Exchange]:
    """The requests of a policy that is told what to do, each with the reply that a model has to learn."""
    made = MADE[protocol]
    told = [calls(call, reasoning=f"Now {call[0]}.") for call in made]
    with running_endpoint(playing(*told, says(ANSWER[1], reasoning=ANSWER[0]))) as fake:
        await attempted(environment, protocol, fake.base_url)
    replies = [calling(f"Now {name}.", name, given) for name, given in made]
    return list(zip(fake.bodies, [*replies, thinking(*ANSWER)], strict=True))


async def write_checkpoint(environment: Environment, out: Path) -> None:
    """Write a checkpoint that has learnt the dialogues of both protocols."""
    if not TOKENIZER.exists():
        pytest.skip(f"no tokenizer in {TOKENIZER}: make test-models")
    exchanges = [e for protocol in MADE for e in await recorded(environment, protocol)]
    assert learn(exchanges, TOKENIZER, out) < 0.1


async def check_both_protocols(environment: Environment, base_url: str, model: str) -> None:
    """See that the model completes the task, as it has learnt it, without breaking a rule."""
    for protocol, made in MADE.items():
        found = await attempted(environment, protocol, base_url, model)
        assert (found.termination, found.violations) == ("answered", ()), found.usage
        assert [(s.tool, s.arguments, s.result.type) for s in found.steps] == [(*call, "ok") for call in NATIVE]
        assert [s.thought for s in found.steps] == [f"Now {name}." for name, _ in made[-2:]]
        assert found.answer == ANSWER[1]
        assert found.usage["completion_tokens"] > 50
        assert (await awm.aio.judge(found, environment=environment)).outcome == "COMPLETED"
