"""Tests of __main__.py."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def test_python_m_memreplay_speaks_of_memreplay() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "peak"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: memreplay peak [OPTIONS] FILE\n")


def python(code: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    start = "import sys\nfrom memreplay import __main__\nsys.argv[1:] = ['--version']\n"
    command = [sys.executable, "-c", start + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


def test_what_is_registered_for_the_exit_runs() -> None:
    done = python("import atexit; atexit.register(print, 'bye', end=''); __main__.run()")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("bye")  # flushed, too


def test_the_exit_code_comes_through() -> None:
    assert python("sys.argv[1:] = ['nonsense']; __main__.run()").returncode == 2


def test_an_exit_code_in_words_is_left_to_python() -> None:
    done = python("__main__.main = lambda: sys.exit('in words')\n__main__.run()")
    assert (done.returncode, done.stderr) == (1, "in words\n")


def test_output_that_cannot_be_written_at_the_end_is_no_traceback() -> None:
    done = python("__main__.main = lambda: (sys.stdout.close(), sys.exit(0))\n__main__.run()")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_without_standard_streams() -> None:
    code = "sys.stdout = sys.stderr = None; __main__.main = lambda: sys.exit(7); __main__.run()"
    done = python(code)
    assert done.returncode == 7
