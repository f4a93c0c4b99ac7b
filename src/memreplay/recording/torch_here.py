"""Import torch, or say in one line why that fails."""

from __future__ import annotations

from typing import Any


def find_torch() -> tuple[Any, str]:
    """Return the module and an empty string, or None and the reason.

    Even an installed torch can fail to import, because a CUDA library is missing, NumPy has another
    ABI, or a file is damaged. The reason is then the error's first line.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return None, "torch is not installed"
        return None, _broken(error)
    except Exception as error:  # importing a broken installation can raise anything
        return None, _broken(error)
    return torch, ""


def _broken(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"torch is installed, but importing it failed: {type(error).__name__}: {lines[0]}"
