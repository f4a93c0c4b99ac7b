"""Imports torch, or says in one line why it can't be imported."""

from __future__ import annotations

from typing import Any


def find_torch() -> tuple[Any, str]:
    """Return the module and an empty text, or None and the reason.

    A torch that is installed can still fail to import: a library of CUDA is missing, NumPy has
    another ABI, a file is damaged. Then the reason has the first line of that error.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return None, "torch is not installed"
        return None, _broken(error)
    except Exception as error:  # whatever a broken installation raises
        return None, _broken(error)
    return torch, ""


def _broken(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"torch is installed, but importing it failed: {type(error).__name__}: {lines[0]}"
