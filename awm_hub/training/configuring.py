"""Configurations of recipes: YAML whose sections are arguments of things, by name, and the command line around it.

`trainer` holds arguments of TRL's configuration, `window` of `Window`, `rollout` of `WindowedRollout` and so on. So
nothing can be configured that does not exist, and a misspelt key is named before anything starts.
"""

import argparse
import difflib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from awm_hub.errors import UsageError

LORA = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
"""Adapters where `--lora` is given and the configuration has none."""
SAVED = ("output_dir", "push_to_hub", "hub_model_id", "hub_strategy", "resume_from_checkpoint")
_GIVEN = {
    "trainer": SAVED,
    "evaluation": ("model", "tokenizer", "environments", "window", "sampling", "out", "name"),
    "rollout": ("window", "slots", "generate"),
    "rewards": ("judge", "log"),
    "tasks": ("dataset", "revision", "repeat"),
    "pool": ("environments",),
}
"""Arguments that follow from others, or from the command line."""
Sections = Mapping[str, Any]
"""Name of a section → the callable whose arguments it holds, a tuple of keys, or None for a single value."""


def parser(doc: str) -> argparse.ArgumentParser:
    """The command line that recipes share."""
    found = argparse.ArgumentParser(description=doc.partition("\n")[0])
    found.add_argument("--config", type=Path, required=True, help="YAML file; see training/configs")
    found.add_argument("--dataset", help="name on the Hub or a folder; default: the bundled environments")
    found.add_argument("--revision", help="branch, tag or commit of the dataset")
    found.add_argument("--model", help="name on the Hub or a folder, instead of the configuration's")
    found.add_argument("--output", type=Path, default=Path("out"), help="folder of model, checkpoints and records")
    found.add_argument("--plan", action="store_true", help="tell what the run takes, and start nothing")
    found.add_argument("--resume", action="store_true", help="go on from the last checkpoint, if there is one")
    found.add_argument("--push-to-hub", metavar="REPO", help="push checkpoints and the model")
    found.add_argument("--lora", action="store_true", help="train adapters instead of the whole model")
    found.add_argument("--smoke", action="store_true", help="a step with a tiny model, on whatever there is")
    found.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a value of the configuration"
    )
    return found


def read(arguments: argparse.Namespace, sections: Sections, smoke: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The configuration that a command line asks for, with all sections.

    Raises:
        UsageError: the file is no such configuration, or has a key that means nothing; it is named.
    """
    import yaml

    try:
        found = yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{arguments.config} cannot be read: {error}", next_step="name a YAML file") from error
    if not isinstance(found, dict):
        raise UsageError(f"{arguments.config} holds no sections", next_step="see training/configs")
    where = arguments.config.name
    for section, values in found.items():
        if sections.get(section, ()) is not None and not isinstance(values, dict):
            raise UsageError(f"{where}: {section} is {values!r}", next_step="give it keys and values, indented")
    for name, values in smoke.items() if arguments.smoke else ():
        found[name] = {**found.get(name, {}), **values}
    if arguments.lora and not found.get("lora"):
        found["lora"] = dict(LORA)
    for change in arguments.set:
        path, equals, value = change.partition("=")
        section, _, key = path.partition(".")
        if not (section and equals) or (sections.get(section, ()) is not None and not key):
            raise UsageError(f"--set {change}", next_step="write --set SECTION.KEY=VALUE")
        if key:
            found.setdefault(section, {})[key] = yaml.safe_load(value)
        else:
            found[section] = yaml.safe_load(value)
    check(found, sections, where)
    return {**{name: {} for name, kind in sections.items() if kind is not None}, **found}


def check(config: Mapping[str, Any], sections: Sections, where: str) -> None:
    """See that every section and key of a configuration means something.

    Raises:
        UsageError: one does not; it is named.
    """
    for section, values in config.items():
        if section not in sections:
            raise UsageError(f"{where}: there is no section {section!r}", next_step=_near(section, sections))
        kind = sections[section]
        if kind is None:
            continue
        keys = kind if isinstance(kind, tuple) else tuple(inspect.signature(kind).parameters)
        for key, value in values.items():
            if key in _GIVEN.get(section, ()):
                step = "leave it out: the recipe gives it"
                raise UsageError(f"{where}: {section}.{key} cannot be set here", next_step=step)
            if key not in keys:
                of = "" if isinstance(kind, tuple) else f" of {kind.__name__}"
                raise UsageError(f"{where}: {section}.{key} is no argument{of}", next_step=_near(key, keys))
            if isinstance(value, str) and _is_number(value):
                step = "write numbers without quotes, and with a point: 7.0e-7"
                raise UsageError(f"{where}: {section}.{key} is the text {value!r}", next_step=step)


def _near(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"one of {', '.join(sorted(known))}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
