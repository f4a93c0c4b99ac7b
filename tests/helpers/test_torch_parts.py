"""Tests of the helper that imports parts of torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torch_parts import torch_part


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return torch's folder, from which it's imported."""
    real = {name: sys.modules.pop(name) for name in [*sys.modules] if _is_of_torch(name)}
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "torch").mkdir()
    yield tmp_path / "torch"
    for name in [*sys.modules]:
        if _is_of_torch(name):
            del sys.modules[name]
    sys.modules.update(real)


def _is_of_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


@pytest.mark.parametrize(
    "whole, part, why",
    [
        (
            "raise ImportError('no libcudart.so.13')",
            "",
            "torch is installed, but importing it failed: ImportError: no libcudart.so.13",
        ),
        ("", "import nosuch", "importing torch.part failed: ModuleNotFoundError: No module named"),
        ("", "raise ValueError", "importing torch.part failed: ValueError: "),
    ],
)
def test_skip_names_the_error(folder: Path, whole: str, part: str, why: str) -> None:
    (folder / "__init__.py").write_text(whole)
    (folder / "part.py").write_text(part)
    with pytest.raises(pytest.skip.Exception) as skipped:
        torch_part("torch.part")
    assert str(skipped.value).startswith(why)


def test_part_is_returned(folder: Path) -> None:
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("found = 7")
    assert torch_part("torch.part").found == 7


def test_missing_torch_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(pytest.skip.Exception, match=r"^torch is not installed$"):
        torch_part("torch.part")
