"""Tests of the message that says why torch can't be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memreplay.recording.torch_here import find_torch


@pytest.mark.parametrize(
    "source, error",
    [
        ("", ""),
        ("raise ImportError('no libcudart.so.13\\nand more')", "ImportError: no libcudart.so.13"),
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
        ("raise RuntimeError", "RuntimeError: "),
    ],
)
def test_reason_is_the_import_error(
    source: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    torch, why = find_torch()
    sys.modules.pop("torch", None)
    assert why == (f"torch is installed, but importing it failed: {error}" if error else "")
    assert (torch is None) == bool(error)


def test_missing_torch_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert find_torch() == (None, "torch is not installed")
