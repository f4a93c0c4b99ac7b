"""bits: portable C gives the same results as the compiler's builtins."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[4]
NAMES = ("clz64", "ctz64", "product")
WORDS = st.integers(0, 2**64 - 1) | st.integers(0, 63).map(lambda bit: 1 << bit)


@pytest.fixture(scope="module", params=["own", "portable"])
def bits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the functions in bits.pxd separately, with the compiler's builtins and in plain C."""
    compiler = shutil.which(os.environ.get("CC", "cc").split()[-1])
    if os.name != "posix" or not compiler or subprocess.call([compiler, "--version"]):
        pytest.skip("no compiler")
    text = (ROOT / "src" / "memreplay" / "engine" / "base" / "bits.pxd").read_text()
    found = re.search(r'"""(.*?)"""', text, re.DOTALL)
    assert found is not None
    exported = "".join(
        f"{'uint64_t' if name == 'product' else 'int'} {name}("
        + ("uint64_t a, uint64_t b, uint64_t *high" if name == "product" else "uint64_t n")
        + f") {{ return memreplay_{name}({'a, b, high' if name == 'product' else 'n'}); }}\n"
        for name in NAMES
    )
    folder = tmp_path_factory.mktemp("bits")
    source = folder / "bits.c"
    source.write_text(f"#define CYTHON_UNUSED\n{found[1]}\n{exported}")
    plain = ["-std=c11", "-pedantic-errors", "-DMEMREPLAY_PORTABLE"]
    library = folder / "bits.so"
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run(
        [compiler, *options, *(plain if request.param == "portable" else []), str(source)],
        check=True,
    )
    made = ctypes.CDLL(str(library))
    made.clz64.argtypes = made.ctz64.argtypes = [ctypes.c_uint64]
    made.product.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64)]
    made.product.restype = ctypes.c_uint64
    return made


@given(number=WORDS.filter(bool))
def test_zeros_are_counted_from_either_end(bits: ctypes.CDLL, number: int) -> None:
    assert bits.clz64(number) == 64 - number.bit_length()
    assert bits.ctz64(number) == (number & -number).bit_length() - 1


@given(one=WORDS, other=WORDS)
def test_product_gives_both_halves(bits: ctypes.CDLL, one: int, other: int) -> None:
    high = ctypes.c_uint64()
    low = bits.product(one, other, ctypes.byref(high))
    assert high.value << 64 | low == one * other
