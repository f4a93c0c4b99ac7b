"""reals: reading floats from text is exact, strict and the same in any locale."""

from __future__ import annotations

import locale
import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from tests.pickle_ops import Ops
from tests.unit.engine.parts import setting

COMMA = ("de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8", "German_Germany.1252")


def of_float(text: bytes) -> float:
    """Return the value that FLOAT reads from a string, kept as a setting."""
    found = mr.open(setting(Ops().op("FLOAT", text + b"\n"))).settings["x"]
    assert isinstance(found, float)
    return found


def written(real: float) -> str:
    """Return the text of a float that is a key in kept data."""
    key = Ops().empty_dict().op("BINFLOAT", struct.pack(">d", real)).integer(1).setitem()
    found: Any = mr.open(setting(key)).settings["x"]
    return str(next(iter(found)))


TEXTS = ["0.0", "-0.0", "1.5", "+1.5", "1", ".5", "5.", "1e5", "1E-5", "1.e+5", "-1.7e308", "1e999"]
BAD = [
    *("", " 1", "1 ", "0x1p3", "0x10", "1_0", "1,5", "e5", ".", "+", "-", "1e", "1e+", "--1"),
    *("in", "infinit", "infinityy", "nan(1)", "nano", "1.5f", "1..5", "1\0", "+-1"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_valid_text_gives_the_exact_float(text: str) -> None:
    assert of_float(text.encode()) == float(text)


@pytest.mark.parametrize("text", ["inf", "-Infinity", "NAN", "+nan"])
def test_nan_and_infinity_are_read_by_name(text: str) -> None:
    found = of_float(text.encode())
    assert found == float(text) or (math.isnan(found) and math.isnan(float(text)))


@pytest.mark.parametrize("text", BAD)
def test_malformed_number_is_an_error(text: str) -> None:
    with pytest.raises(mr.SnapshotError, match=r"a malformed number \(byte \d+, FLOAT\)"):
        mr.open(setting(Ops().op("FLOAT", text.encode() + b"\n")))


@given(real=st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_round_trips(real: float) -> None:
    assert of_float(repr(real).encode()) == real
    assert float(written(real)) == real
    assert "." in written(real) or "e" in written(real)


@pytest.mark.parametrize("real", [0.1, 1.0, -2.5, 1e-7, 1e22, 123456.789, 0.30000000000000004])
def test_float_is_spelled_like_pythons_repr(real: float) -> None:
    assert written(real) == repr(real)


@pytest.fixture
def with_comma() -> Iterator[None]:
    before = locale.setlocale(locale.LC_NUMERIC)
    for name in COMMA:
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
            break
        except locale.Error:
            continue
    else:
        pytest.skip("no locale with a decimal comma here")
    yield
    locale.setlocale(locale.LC_NUMERIC, before)


@pytest.mark.usefixtures("with_comma")
def test_decimal_comma_of_the_locale_is_ignored() -> None:
    for real in (0.1, -2.5, 1e22, 1.5e-7, 1234567.25):
        assert of_float(repr(real).encode()) == real
        assert written(real) == repr(real)
    with pytest.raises(mr.SnapshotError):
        of_float(b"1,5")


def test_result_does_not_depend_on_the_locale() -> None:
    # This takes a separate process, because the fixture above skips if no such locale is installed.
    code = (
        "import locale, memreplay as mr\n"
        "try:\n    locale.setlocale(locale.LC_ALL, '')\nexcept locale.Error:\n    pass\n"
        'data = b\'{"segments": [], "allocator_settings": {"x": [0.1, 2.5]}}\'\n'
        "assert mr.open(data).settings == {'x': [0.1, 2.5]}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
