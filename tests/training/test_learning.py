"""Learning in a minute: what `tests/training/learning/run.py` does at length, cut down to see that it works at all.

Fewer tasks, a smaller model and a few steps: the figures are of the rollouts of training itself.
"""

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")


pytestmark = pytest.mark.slow
