"""Find live objects by type."""

from typing import Any

def living(*kinds: type) -> list[list[Any]]: ...
