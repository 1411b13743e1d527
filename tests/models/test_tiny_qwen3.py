"""A model of Qwen3's architecture behind `transformers serve` completes a task, in both protocols."""

from pathlib import Path

import pytest

pytest.importorskip("transformers.cli.serving", reason="runs in an environment of its own: make test-models")
pytest.importorskip("torch")

from models.conftest import serving
from models.dialogues import check_both_protocols, write_checkpoint

from awm_hub.environment import Environment

pytestmark = pytest.mark.slow


async def test_a_tiny_model_completes_a_task_natively_and_in_the_papers_protocol(
    small_world: Environment, tmp_path: Path
) -> None:
    tiny = str(tmp_path / "tiny")
    await write_checkpoint(small_world, tmp_path / "tiny")
    command = ["-m", "transformers.cli.transformers", "serve", tiny, "--device", "cpu", "--port", "{port}"]
    with serving(*command, health="/health") as address:
        await check_both_protocols(small_world, f"{address}/v1", tiny)
