"""Prepare the recording of torch in every recorded Python process, before the program runs.

Python imports this module at start-up. This module doesn't need memreplay, which may not be
installed in that Python: a dry run loads memreplay_recording.py from this folder, and a real
recording loads recording/outside.py.
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
# Read this now, because a program may change its environment before importing torch.
TOLD = {name: text for name, text in os.environ.items() if name.startswith("MEMREPLAY_")}
OUTSIDE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "recording", "outside.py")


class AfterTorch:
    """Finds torch as usual, and prepares the recording after the import."""

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
    """Wrap a loader, which is only used for torch."""
    execute = loader.exec_module

    def executed(module: ModuleType) -> None:
        # Don't do this earlier, because libraries look for torch just to see whether it exists.
        first = AfterTorch in sys.meta_path
        if first:
            sys.meta_path.remove(AfterTorch)
        execute(module)
        if not first:
            return
        prepare(module)

    loader.exec_module = executed  # type: ignore[method-assign]


def prepare(torch: ModuleType) -> None:
    """Load the requested recordings."""
    if "MEMREPLAY_DRYRUN" in TOLD:
        module = loaded("memreplay_recording", os.path.join(HERE, "memreplay_recording.py"))
        module.TOLD.update(TOLD)
        module.Recording(torch).prepare()
    if "MEMREPLAY_RECORD" in TOLD:
        loaded("memreplay_outside", OUTSIDE).prepare(torch, TOLD["MEMREPLAY_RECORD"])


def note_failure() -> None:
    """Note why the program failed, for the cases where a hint helps."""
    if getattr(sys, "last_value", None) is None:
        return
    try:
        module = loaded("memreplay_failing", os.path.join(HERE, "memreplay_failing.py"))
        module.write(os.path.join(TOLD["MEMREPLAY_DRYRUN"], f"{os.getpid()}.missing"))
    except Exception as error:  # the program has its own error, which matters more
        sys.stderr.write(f"memreplay: no hint: {error}\n")


def loaded(name: str, path: str) -> Any:
    """Load a module by path, because the program may have changed sys.path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_the_other() -> None:
    """Import the sitecustomize module that this one hides."""
    spec = PathFinder.find_spec(
        "sitecustomize", [one for one in sys.path if os.path.abspath(one) != HERE]
    )
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "MEMREPLAY_DRYRUN" in TOLD:
    import atexit

    atexit.register(note_failure)
if "MEMREPLAY_DRYRUN" in TOLD or "MEMREPLAY_RECORD" in TOLD:
    sys.meta_path.insert(0, AfterTorch)
import_the_other()
