"""Record in Axolotl: `plugins: [memreplay.integrations.axolotl.MemoryPlugin]` in its YAML file."""

from __future__ import annotations

from importlib import import_module
from typing import Any

BasePlugin: Any = import_module("axolotl.integrations.base").BasePlugin


class MemoryPlugin(BasePlugin):  # type: ignore[misc]
    """Adds the callback for transformers. MEMREPLAY_OPTIONS in the environment has its options."""

    def add_callbacks_pre_trainer(self, cfg: Any, model: Any) -> list[Any]:
        """Return the callback."""
        from memreplay.integrations.transformers import MemoryCallback

        return [MemoryCallback()]
