"""A fake torch that logs the recorder's calls and allocates memory.

It has no callback for blocks, so no categories are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.build import SnapshotBuilder

SIZE = 512


class OutOfMemoryError(RuntimeError):
    """An error with the name of PyTorch's."""


class Memory:
    """A fake torch.cuda.memory, or torch.xpu's."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.made = SnapshotBuilder()
        self.addresses = 0

    def _record_memory_history(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = 2**63 - 1,
        clear_history: bool = False,
        skip_actions: list[str] | None = None,
    ) -> None:
        given = {
            "enabled": enabled,
            "context": context,
            "stacks": stacks,
            "max_entries": max_entries,
            "clear_history": clear_history,
            "skip_actions": skip_actions,
        }
        self.asked.append({"enabled": None} if enabled is None else given)

    def _snapshot(self) -> dict[str, Any]:
        return dict(self.made.build())

    def take(self) -> None:
        """Allocate a block."""
        self.addresses += SIZE
        self.made.alloc(self.addresses, SIZE)


class Torch(ModuleType):
    """A fake torch."""

    def __init__(self, kinds: tuple[str, ...] = ("cuda",)) -> None:
        super().__init__("torch")
        self.__version__ = "9.9"
        self.__file__ = __file__
        self.memory = Memory()
        self.observers: list[Callable[..., None]] = []
        self._C = SimpleNamespace()
        for kind in ("cuda", "xpu"):
            setattr(self, kind, self.devices(kind in kinds))
            setattr(self._C, f"_{kind}_attach_out_of_memory_observer", self.observers.append)

    def devices(self, there: bool) -> Any:
        card = SimpleNamespace(name="A card", total_memory=1 << 30)
        return SimpleNamespace(
            is_available=lambda: there,
            device_count=lambda: 1,
            get_device_properties=lambda _: card,
            memory_stats_as_nested_dict=lambda _: {},
            memory=self.memory,
        )

    def run_out(self) -> None:
        """Request more memory than exists."""
        for observer in self.observers:
            observer(0, SIZE, SIZE, 0)
        raise OutOfMemoryError("CUDA out of memory.")


def make_torch(folder: Path, unwind: str = "enum class Mode { addr2line, fast, dladdr };") -> str:
    """Write a PyTorch folder with the header that shows how it can symbolize C++ frames."""
    path = folder / "include/torch/csrc/profiler/unwind/unwind.h"
    path.parent.mkdir(parents=True)
    path.write_text(unwind)
    return str(folder)
