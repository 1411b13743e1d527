"""The dataset that the wheel carries is what `environments/` packs to."""

from pathlib import Path

import awm_hub
from awm_hub.packing import pack

ROOT = Path(__file__).parent.parent


def test_the_bundled_dataset_is_up_to_date(tmp_path: Path) -> None:
    packed = {e.id: e.content_hash for e in pack(ROOT / "environments", tmp_path / "out").environments}
    assert {e.id: e.content_hash for e in awm_hub.load().entries.values()} == packed, "run `make bundle`"
