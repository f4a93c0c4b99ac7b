"""Check that matplotlib is installed."""

from __future__ import annotations

from importlib.util import find_spec

from memreplay.errors import MissingExtraError


def check_plot() -> None:
    """Raise MissingExtraError without matplotlib. Called before a large file is read."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("pictures need matplotlib", "plot")
