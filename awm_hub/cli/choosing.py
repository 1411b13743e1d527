"""The environment that a command names, and next steps that lead to the same dataset."""

import argparse
import contextlib
import dataclasses
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from awm_hub.cli.outcomes import Failure
from awm_hub.errors import UnknownNameError

if TYPE_CHECKING:
    from awm_hub.environment import Environment


_COMMAND = re.compile(r"(`?)(awm-hub (?:list|show|call|demo|serve)(?: [^`;]*)?)(?=[`;]|$)")
"""A next step that begins with a command that takes `--dataset`; prose after it follows a backtick or a semicolon."""


def in_dataset(command: str, arguments: argparse.Namespace) -> str:
    """A command line that asks the same dataset, at the same revision."""
    asked = {name: getattr(arguments, name, None) for name in ("dataset", "revision")}
    options = (f" --{name} {shlex.quote(value)}" for name, value in asked.items() if value is not None)
    return command + "".join(options)


def next_in_dataset(failure: Failure, arguments: argparse.Namespace) -> Failure:
    """A failure whose next step, where it is a command, asks the same dataset."""
    found = _COMMAND.match(failure.next)
    if found is None or "--dataset" in failure.next or "--help" in failure.next:
        return failure
    step = found[1] + in_dataset(found[2], arguments) + failure.next[found.end() :]
    return dataclasses.replace(failure, next=step)


@contextlib.contextmanager
def naming_dataset(arguments: argparse.Namespace) -> Iterator[None]:
    """Unknown names are answered with a next step in the dataset that was asked, or with where else to look.

    Raises:
        UnknownNameError: as it came, with another next step.
    """
    try:
        yield
    except UnknownNameError as error:
        if error.what == "environment":
            elsewhere = "" if arguments.dataset else "; --dataset OUT looks into a dataset of your own"
            error.next_step = f"`{in_dataset('awm-hub list', arguments)}` shows all{elsewhere}"
        elif error.next_step.startswith("awm-hub "):
            error.next_step = in_dataset(error.next_step, arguments)
        raise


def chosen_environment(arguments: argparse.Namespace) -> "Environment":
    """The environment that the command line names.

    Raises:
        UnknownNameError: the dataset has no such environment.
        DataError: the dataset cannot be read.
    """
    from awm_hub.hub import load

    with naming_dataset(arguments):
        return load(arguments.dataset, revision=arguments.revision)[arguments.environment]
