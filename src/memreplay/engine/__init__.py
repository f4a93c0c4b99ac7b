"""All that is compiled, in stages: base, record, read, replay, query, write.

The modules of the stages lie in one shared library, that of `memreplay._core`: one library loads
ten milliseconds faster than sixty do. Python looks for a compiled module by the name of its file,
so it has to be told where these are.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder

_PREFIX = f"{__name__}."
# What is not compiled.
_IN_PYTHON = {f"{_PREFIX}base.diagnosis"}


class Finder:
    """Finds `memreplay.engine.<stage>.<module>` in the library."""

    library = ""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """The spec of a compiled module; None for a name that is not of one.

        Raises ImportError where nothing was built.
        """
        if not name.startswith(_PREFIX) or name.count(".") != 3 or name in _IN_PYTHON:
            return None
        if not cls.library:
            cls.library = _library()
        # What it calls in the library is PyInit_ and the last part of the name.
        loader = ExtensionFileLoader(name, cls.library)
        return ModuleSpec(name, loader, origin=cls.library)


def _library() -> str:
    """The path of the library."""
    package = __name__.rpartition(".")[0]
    found = PathFinder.find_spec(f"{package}._core", sys.modules[package].__path__)
    if found is None or found.origin is None:
        raise ImportError(f"{package} is not built: run `make`, or install it", name=__name__)
    return found.origin


# Before the others: they would look into folders first.
sys.meta_path.insert(0, Finder)
