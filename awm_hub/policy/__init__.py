"""Policies: what chooses an agent's next action.

`ChatPolicy` asks a model, with the environment's tools as native ones or in the paper's text protocol. The others
follow a script: the reference solution, nothing at all, random calls, or an earlier trajectory. `policy_from` knows
them by the names of the command line. `rules` holds the six rules of the paper's format.
"""

from awm_hub.policy.acting import Action, Call, Message, Policy, Turn, View, Violation
from awm_hub.policy.chat import ChatPolicy, opening
from awm_hub.policy.naming import policy_from
from awm_hub.policy.parsing import parse
from awm_hub.policy.scripted import NoopPolicy, RandomPolicy, ReplayPolicy, SolutionPolicy

__all__ = [
    "Action",
    "Call",
    "ChatPolicy",
    "Message",
    "NoopPolicy",
    "Policy",
    "RandomPolicy",
    "ReplayPolicy",
    "SolutionPolicy",
    "Turn",
    "View",
    "Violation",
    "opening",
    "parse",
    "policy_from",
]
