"""Compilers work in a dry run: Triton finds a driver to link to, and all caches are separate."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memreplay.dryrun.cards import find
from memreplay.dryrun.launch import Setup, run
from tests.unit.dryrun.fake_torch import COMPILER, write_torch

PROGRAM = """
import ctypes, os, subprocess
folder = os.environ["TRITON_LIBCUDA_PATH"]
assert ctypes.CDLL(folder + "/libcuda.so.1").cuInit(0) == 0
with open("helper.c", "w") as file:
    file.write("int cuDeviceGetCount(int *n); int cards(void)"
               "{ int n = 0; cuDeviceGetCount(&n); return n; }")
subprocess.run([COMPILER, "helper.c", "-shared", "-fPIC", "-L" + folder, "-l:libcuda.so.1",
                "-o", "./helper.so"], check=True)
assert ctypes.CDLL("./helper.so").cards() == 3
assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != "/of/real/cards"
assert os.environ["USE_PYTORCH_KERNEL_CACHE"] == "0"
"""


def test_compilers_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_torch(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/of/real/cards")
    monkeypatch.chdir(tmp_path)
    card = find("A100-80")
    out = tmp_path / "out"
    out.mkdir()
    program = f"COMPILER = {COMPILER!r}{PROGRAM}"
    ended = run((sys.executable, "-c", program), Setup(card, card.bytes, cards=3), out)
    assert ended.status == 0
