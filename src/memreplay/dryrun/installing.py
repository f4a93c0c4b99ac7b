"""Say how to install PyTorch's CUDA build for one Python."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

# PyTorch's CUDA build without NVIDIA's libraries, and then what it imports.
INSTALL_TORCH = "pip install --no-deps torch"
INSTALL_IMPORTED = (
    "pip install filelock typing-extensions sympy networkx jinja2 fsspec numpy setuptools"
)
# pip keeps an installed CPU build unless told otherwise.
REPLACE_TORCH = "pip install --force-reinstall --no-deps torch"
_INDEX = "--index-url https://download.pytorch.org/whl/{}"
# On this machine, PyPI has PyTorch's CPU build.
_OTHER_INDEX = "aarch64"
# PyTorch's builds for CUDA 13 need this version of Python. Earlier ones have builds for CUDA 12.
_OF_CUDA_13 = (3, 10)
# The last builds for cards that CUDA 13 doesn't know.
_OLD_CARDS = "cu126"
_NEW_FOLDER = "dryrun-env"
NEW_PYTHON = f"{_NEW_FOLDER}/bin/python"
"""The Python in the environment that the message tells a user to create."""


class Installer(NamedTuple):
    """How packages are installed for a Python."""

    python: str
    """The interpreter."""
    version: tuple[int, int] = (3, 12)
    machine: str = "x86_64"
    """As `platform.machine()` says it."""
    pip: bool = True
    """Whether it has pip."""
    uv: bool = False
    """Whether to use uv, because it created the environment or pip is missing."""
    managed: bool = False
    """Whether the system's package manager forbids pip to install into it (PEP 668)."""

    def line(self, line: str, index: str = "") -> str:
        """Return a line such as `pip install torch` for this Python.

        `index`: the end of the address of PyTorch's packages, such as `cu126`; by default the
        usual ones.
        """
        words = line.removeprefix("pip ")
        if not index and line.endswith(" torch") and self.machine == _OTHER_INDEX:
            index = "cu130" if self.version >= _OF_CUDA_13 else "cu126"
        if index:
            words += f" {_INDEX.format(index)}"
        if self.managed:
            return f"{NEW_PYTHON} -m pip {words}"
        python = shlex.quote(self.python)
        if self.uv:
            return f"uv pip {words.replace('install', f'install --python {python}', 1)}"
        return f"{python} -m pip {words}"

    def install(self) -> str:
        """Return how to install torch."""
        lines = [self.line(INSTALL_TORCH), self.line(INSTALL_IMPORTED)]
        if not (self.pip or self.uv or self.managed):
            lines.insert(0, f"{shlex.quote(self.python)} -m ensurepip")
        if self.managed:
            lines.insert(0, f"{shlex.quote(self.python)} -m venv {_NEW_FOLDER}")
        return ", then ".join(f"`{one}`" for one in lines)

    def replace(self, version: str) -> str:
        """Return how to replace a CPU build of this version by a CUDA build."""
        pinned = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\+cpu)?", version)
        found = self.line(REPLACE_TORCH)
        return found.replace(" torch", f" torch=={pinned[1]}", 1) if pinned else found

    def for_old_cards(self) -> str:
        """Return how to install a torch for CUDA 12."""
        return self.line(REPLACE_TORCH, _OLD_CARDS)
