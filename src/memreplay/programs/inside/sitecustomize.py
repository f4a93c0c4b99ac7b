"""Runs in every Python process that is recorded, before the program: prepares a recording of torch.

Python imports a module of this name at its start. It needs nothing of memreplay, which need not be
installed where the program runs: of a dry run memreplay_recording.py, which lies beside it, and
where a program is recorded on a card recording/outside.py.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
# Read at once: a program may change its environment before it imports torch.
TOLD = {name: text for name, text in os.environ.items() if name.startswith("MEMREPLAY_")}
OUTSIDE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "recording", "outside.py")


class AfterTorch:
    """Finds torch as ever, and lets the recording be prepared once it is imported."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            spec = None if finder is cls else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                prepare_after(spec.loader)
                return spec
        return None


def prepare_after(loader: Loader) -> None:
    """Change one loader, which is torch's alone."""
    execute = loader.exec_module

    def executed(module: ModuleType) -> None:
        # Not before: libraries look for torch to see whether it is there, and import it later.
        first = AfterTorch in sys.meta_path
        if first:
            sys.meta_path.remove(AfterTorch)
        execute(module)
        if not first:
            return
        prepare(module)

    loader.exec_module = executed  # type: ignore[method-assign]


def prepare(torch: ModuleType) -> None:
    """Load the recordings that are asked for."""
    if "MEMREPLAY_DRYRUN" in TOLD:
        module = loaded("memreplay_recording", os.path.join(HERE, "memreplay_recording.py"))
        module.TOLD.update(TOLD)
        module.Recording(torch).prepare()
    if "MEMREPLAY_RECORD" in TOLD:
        loaded("memreplay_outside", OUTSIDE).prepare(torch, TOLD["MEMREPLAY_RECORD"])


def loaded(name: str, path: str) -> Any:
    """A module by its path: a program may have changed sys.path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_the_other() -> None:
    """The sitecustomize that would have been imported without this one."""
    spec = PathFinder.find_spec(
        "sitecustomize", [one for one in sys.path if os.path.abspath(one) != HERE]
    )
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "MEMREPLAY_DRYRUN" in TOLD or "MEMREPLAY_RECORD" in TOLD:
    sys.meta_path.insert(0, AfterTorch)
import_the_other()
