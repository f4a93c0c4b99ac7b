"""A fake torch with optimizers' and modules' hooks, and fake frameworks with the interfaces that
memreplay.integrations uses.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.integrations.options import VARIABLE
from memreplay.recording import session
from memreplay.recording.facts import RANKS
from tests.unit.recording.stand_in import Torch

FRAMEWORKS = ("transformers", "lightning", "accelerate", "torchtitan", "axolotl", "autostart")


class Hooks:
    """A dict of hooks that refuses changes while they are called, like PyTorch's."""

    def __init__(self) -> None:
        self.hooks: list[Callable[..., Any]] = []
        self.calling = False

    def register(self, hook: Callable[..., Any]) -> Any:
        assert not self.calling, "OrderedDict mutated during iteration"
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.remove(hook))

    def remove(self, hook: Callable[..., Any]) -> None:
        assert not self.calling, "OrderedDict mutated during iteration"
        self.hooks.remove(hook)

    def call(self, *args: Any, copied: bool = False) -> None:
        self.calling = not copied
        for hook in list(self.hooks):
            assert hook(*args) is None
        self.calling = False


class Program:
    """A training with the fake torch, in its own folder."""

    def __init__(self, torch: Torch, folder: Path) -> None:
        self.torch, self.folder = torch, folder
        self.optimizers, self.modules = Hooks(), Hooks()
        self.on = False
        record = torch.memory._record_memory_history

        def recorded(**given: Any) -> None:
            record(**given)
            self.on = given.get("enabled") is not None
            if self.on:
                torch.memory.made.traces[0].clear()

        # has the parameters of the function that it replaces
        functools.update_wrapper(recorded, record)
        setattr(torch.memory, record.__name__, recorded)

    def forward(self, module: Any = None) -> None:
        self.modules.call(module, (), copied=True)
        if self.on:
            self.torch.memory.take()

    def step(self, optimizer: Any = "adam") -> None:
        """Run a step, which allocates one block."""
        self.forward()
        self.optimizers.call(optimizer, (), {})

    @property
    def files(self) -> dict[str, int]:
        """The number of events in each snapshot."""
        import memreplay as mr

        found = {}
        for path in sorted(self.folder.rglob("*.pickle*")):
            with mr.open(path) as snap:
                found[str(path.relative_to(self.folder))] = snap.trace_events(0)
        return found


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Program]:
    made = Program(Torch(), tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in (VARIABLE, "CUDA_VISIBLE_DEVICES", *(name for pair in RANKS for name in pair)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", made.torch)
    for name, function, hooks in (
        ("torch.optim.optimizer", "register_optimizer_step_post_hook", made.optimizers),
        ("torch.nn.modules.module", "register_module_forward_pre_hook", made.modules),
    ):
        module = ModuleType(name)
        setattr(module, function, hooks.register)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(session, "_observing", [])
    for name in FRAMEWORKS:
        monkeypatch.delitem(sys.modules, f"memreplay.integrations.{name}", raising=False)
    yield made
    left = [one.path for one in session._active]
    session._active.clear()
    assert not left
    assert not made.optimizers.hooks
    assert not made.modules.hooks


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """Add a module and its packages to sys.modules."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:count]), ModuleType(parts[count - 1]))
    vars(sys.modules[name]).update(contents)
