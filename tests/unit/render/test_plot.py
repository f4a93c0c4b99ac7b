"""plot: the message if matplotlib is missing."""

from __future__ import annotations

import sys

import pytest

from memreplay.errors import MissingExtraError
from memreplay.render.plot import check_plot


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingExtraError, match=r"^pictures need .*: pip install .* \(the extra 'plot'\)"
    ):
        check_plot()


def test_installed_matplotlib_passes_the_check() -> None:
    pytest.importorskip("matplotlib")
    check_plot()
