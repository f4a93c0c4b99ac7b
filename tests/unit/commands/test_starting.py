"""Tests of the imports that a command does before it knows its arguments."""

from __future__ import annotations

import subprocess
import sys

from memreplay.commands.shared.listed import COMMANDS

# Each of these modules takes longer to import than a small snapshot takes to read.
HEAVY = ("numpy", "rich", "pyarrow", "duckdb", "matplotlib", "fsspec")
# These commands always need NumPy.
NEED_NUMPY = ("report", "fleet")


def test_no_command_imports_slow_modules() -> None:
    modules = [f"memreplay.commands.{name}.command" for name in COMMANDS if name not in NEED_NUMPY]
    program = (
        f"import sys, importlib\nfor name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    found = [one for one in {HEAVY!r} if one in sys.modules]\n"
        "    assert not found, (name, found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
