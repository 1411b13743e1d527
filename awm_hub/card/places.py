"""Where the folders lie that a push uploads or fills: carried by the wheel, or beside the package in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def carried(name: str) -> Path:
    """The folder `dataset_card`, `loaders` or `spaces`."""
    within = _PACKAGE / name
    return within if within.is_dir() else _PACKAGE.parent / name
