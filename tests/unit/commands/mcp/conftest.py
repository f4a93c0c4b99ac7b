"""Share the folder of snapshots with the server's tests."""

from __future__ import annotations

from tests.unit.mcp.conftest import folder

__all__ = ["folder"]
