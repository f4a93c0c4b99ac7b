"""The compiled stages: base, record, read, replay, query, simulate, write.

All compiled modules are in one shared library, `memreplay._core`, because loading one library is 10
ms faster than loading sixty. Python looks for a compiled module by its file name, so `Finder` maps
the module names to that library.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder

_PREFIX = f"{__name__}."
# Modules written in Python rather than compiled.
_IN_PYTHON = {f"{_PREFIX}base.diagnosis"}


class Finder:
    """Find `memreplay.engine.<stage>.<module>` in the library."""

    library = ""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """Return the spec of a compiled module, or None for other names.

        Raises ImportError if the library wasn't built.
        """
        if not name.startswith(_PREFIX) or name.count(".") != 3 or name in _IN_PYTHON:
            return None
        if not cls.library:
            cls.library = _library()
        # The library exports PyInit_<last part of the module name>.
        loader = ExtensionFileLoader(name, cls.library)
        return ModuleSpec(name, loader, origin=cls.library)


def _library() -> str:
    """Return the path of the library."""
    package = __name__.rpartition(".")[0]
    found = PathFinder.find_spec(f"{package}._core", sys.modules[package].__path__)
    if found is None or found.origin is None:
        raise ImportError(f"{package} is not built: run `make`, or install it", name=__name__)
    return found.origin


# This finder must come first, because the default finders would search folders.
sys.meta_path.insert(0, Finder)
