"""The folder of snapshots that tests of the server have, too."""

from __future__ import annotations

from tests.unit.mcp.conftest import folder

__all__ = ["folder"]
