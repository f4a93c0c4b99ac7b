"""Tests of what a command loads before it knows what is asked of it."""

from __future__ import annotations

import subprocess
import sys

from memreplay.commands.shared.listed import COMMANDS

# Each takes longer to load than a small snapshot takes to read.
HEAVY = ("numpy", "rich", "pyarrow", "duckdb", "matplotlib", "fsspec")
# These need NumPy for whatever they are asked.
NEED_NUMPY = ("report", "fleet")


def test_no_command_loads_what_takes_long() -> None:
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
