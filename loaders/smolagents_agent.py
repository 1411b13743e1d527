# /// script
# requires-python = ">=3.11"
# dependencies = ["awm-hub[agents]"]
# ///
"""A smolagents agent solves a task on a live environment; a judge says whether it did.

    uv run smolagents_agent.py public_library_1 owed_by_ingeborg --model Qwen/Qwen3-32B
    uv run smolagents_agent.py public_library_1 --base-url http://127.0.0.1:8000/v1 --model my-model -o attempt.json

The first line asks a Hugging Face inference provider, the second any OpenAI-compatible endpoint (vLLM, llama.cpp, …).
Without a task, the environment's first is attempted. The key of an endpoint is AWM_HUB_API_KEY; a provider gets
HF_TOKEN or the login of `hf auth login`. In a dataset's repo this file takes the dataset it lies in, elsewhere the
bundled one, or the one that --dataset names.

The agent calls tools (ToolCallingAgent). With --code it writes Python instead (CodeAgent), which smolagents runs in an
interpreter that is no sandbox, on this machine: do that with environments whose texts you trust.

Exit code: 0 completed, 1 not completed, above that an error.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from huggingface_hub import InferenceClient
from smolagents import CodeAgent, InferenceClientModel, ToolCallingAgent

import awm_hub as awm
from awm_hub.inference import key_for
from awm_hub.integrations.smolagents import run_agent

HERE = Path(__file__).resolve().parent.parent
"""The dataset's repo, if this file lies in one."""


def main() -> int:
    """Make one attempt; the exit code."""
    arguments = parse()
    environment = awm.load(arguments.dataset)[arguments.environment]
    task = environment.task(arguments.task) if arguments.task else environment.tasks[0]
    print(f"{environment.title}: {task.prompt}\n")
    with awm.launch(environment, task=task.slug, seed=arguments.seed) as instance:
        agent = CodeAgent if arguments.code else ToolCallingAgent
        level = 0 if arguments.quiet else 1
        trajectory = run_agent(
            lambda tools: agent(tools=tools, model=model(arguments), verbosity_level=level),
            instance,
            max_steps=arguments.max_steps,
        )
    save(trajectory, arguments.output)
    for step in trajectory.steps:
        print(f"{step.result.type:13}{step.tool} {json.dumps(step.arguments)}")
    print(f"\n{trajectory.termination}: {trajectory.answer}")
    verdict = awm.judge(trajectory)
    save(replace(trajectory, verdicts=(verdict,)), arguments.output)
    print(f"{verdict.outcome}: {verdict.reasoning}")
    return 0 if verdict.outcome == "COMPLETED" else 1


def save(trajectory: awm.Trajectory, path: Path | None) -> None:
    """Write the record, if that was asked for; once without the verdict, since a judge may fail."""
    if path:
        path.write_text(json.dumps(trajectory.to_dict()), encoding="utf-8")


def model(arguments: argparse.Namespace) -> InferenceClientModel:
    """The model behind the endpoint, or at a provider; both through the Hub's own client."""
    key = key_for(arguments.base_url)
    if arguments.base_url:
        # with a key of its own, so that the Hub's token is not sent to another server
        client = InferenceClient(base_url=arguments.base_url, api_key=key or "none", timeout=arguments.timeout)
    else:
        client = InferenceClient(provider=arguments.provider, api_key=key, timeout=arguments.timeout)
    return InferenceClientModel(arguments.model, client=client, model=arguments.model)


def parse() -> argparse.Namespace:
    """The command line."""
    text, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("environment", help="id of the environment")
    parser.add_argument("task", nargs="?", help="id of the task, or its last part")
    parser.add_argument("--dataset", default=str(HERE) if (HERE / "index.parquet").exists() else None)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url", help="of an OpenAI-compatible endpoint; it ends with /v1")
    parser.add_argument("--provider", default="auto", help="a Hugging Face inference provider")
    parser.add_argument("--code", action="store_true", help="CodeAgent instead of ToolCallingAgent")
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one answer of the model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="do not show what the agent does")
    parser.add_argument("-o", "--output", type=Path, help="write the trajectory, for `awm-hub view` and `judge`")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except awm.AwmHubError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
