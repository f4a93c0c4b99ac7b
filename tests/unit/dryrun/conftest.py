"""The library that simulates the GPU, loaded for one module's tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dryrun.library import load


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Load a copy of the library for these tests. It shares no state with other copies."""
    return load(tmp_path_factory.mktemp("gpu"), "bytes=85899345920;count=2;lag=2")
