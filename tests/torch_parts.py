"""Import parts of torch for comparisons, or skip the test with the real reason."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from memreplay.recording.torch_here import find_torch


def torch_part(name: str) -> Any:
    """Return torch's module of this name (`torch.cuda._memory_viz`).

    Skips the test if torch isn't installed, or with the error if the import fails.
    """
    torch, why = find_torch()
    if torch is None:
        pytest.skip(why)
    try:
        return import_module(name)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        pytest.skip(f"importing {name} failed: {type(error).__name__}: {first}")
