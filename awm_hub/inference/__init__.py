"""Models as something that answers: one endpoint, asked by many, at a pace, until there is a reply.

An `Endpoint` asks through `huggingface_hub`'s inference client, so the same code reaches a local vLLM, any
OpenAI-compatible server and Hugging Face's providers. It knows chat messages and tokens and nothing about environments:
policies (`awm_hub.policy`) and judges (`awm_hub.judging`) stand on it.
"""

from awm_hub.inference.endpoint import KEY_VARIABLE, Endpoint, key_for
from awm_hub.inference.replies import Reply, ToolCallText
from awm_hub.inference.sampling import Sampling
from awm_hub.inference.usage import Price, Usage

__all__ = ["KEY_VARIABLE", "Endpoint", "Price", "Reply", "Sampling", "ToolCallText", "Usage", "key_for"]
