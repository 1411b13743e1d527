"""The same tiny model behind vLLM's server on a CPU; optional, since the environment for it is large."""

from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="runs in an environment of its own: make test-vllm")
pytest.importorskip("transformers.cli.serving", reason="this vLLM came with an older transformers")

from models.conftest import serving
from models.dialogues import check_both_protocols, write_checkpoint

from awm_hub.environment import Environment

pytestmark = pytest.mark.slow


async def test_a_tiny_model_behind_vllm_completes_a_task_in_both_protocols(
    small_world: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    await write_checkpoint(small_world, tmp_path / "tiny")
    command = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(tmp_path / "tiny"), "--port", "{port}"]
    parsers = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"]
    sizes = ["--served-model-name", "tiny", "--max-model-len", "4096", "--enforce-eager", "--dtype", "float32"]
    greedy = ["--override-generation-config", '{"temperature": 0.0}']  # else one token in ten may be another one
    with serving(*command, *parsers, *sizes, *greedy, health="/health", within_s=300) as address:
        await check_both_protocols(small_world, f"{address}/v1", "tiny")
