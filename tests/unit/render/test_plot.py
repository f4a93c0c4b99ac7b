"""plot: what is said where matplotlib is missing."""

from __future__ import annotations

import sys

import pytest

from memreplay.errors import MissingExtraError
from memreplay.render.plot import check_plot


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingExtraError, match=r"^pictures need .*: pip install .* \(the extra 'plot'\)"
    ):
        check_plot()


def test_with_matplotlib() -> None:
    pytest.importorskip("matplotlib")
    check_plot()
