"""dryrun/elf.py reads the names of the libraries that a library needs, and renames symbols."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from memreplay.dryrun.elf import ElfError, needs, renamed
from memreplay.dryrun.runtime import _FUNCTION, _LIBRARY, built


def test_needed_libraries_and_defined_symbols_are_read() -> None:
    found = needs(built("_gpu"))
    assert "libc.so.6" in found.libraries
    assert {"cudaMalloc", "cuMemCreate", "ncclCommInitRank"} <= found.defined
    assert "mmap" in found.undefined
    assert "take_addresses" not in found.defined  # only its own
    assert not found.undefined & found.defined


def test_thin_library_needs_the_gpu_library() -> None:
    assert needs(built("_thin")).libraries == ("libmemreplay_gpu.so",)


def test_names_are_found_by_the_loader(tmp_path: Path) -> None:
    names = ["cudnnFirst", "c", "cusparse" + "Long" * 20]
    path = tmp_path / "more.so"
    path.write_bytes(
        renamed(
            built("_unanswered").read_bytes(),
            {_FUNCTION.format(i): name for i, name in enumerate(names)} | {_LIBRARY: "more.so"},
        )
    )
    assert set(names) <= needs(path).defined
    library = ctypes.CDLL(str(path))
    for calls, name in enumerate(names, 1):
        for _ in range(calls):
            assert library[name](1, 2, 3) == 0
    counts = (ctypes.c_uint32 * 4096).in_dll(library, "memreplay_counts")
    assert list(counts[:4]) == [1, 2, 3, 0]
    assert sum(counts) == 6
    # Unchanged names are found as well, in another chain of the table.
    for i in (3, 1000, 4095):
        assert library[_FUNCTION.format(i)]() == 0
    assert ctypes.c_uint32.in_dll(library, "memreplay_last").value == 4095
    with pytest.raises(AttributeError):
        library[_FUNCTION.format(0)]


def test_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ElfError, match=" is too long: at most 65 characters fit"):
        renamed(built("_thin").read_bytes(), {_LIBRARY: "x" * 66})


@pytest.mark.parametrize(
    "data, message",
    [
        (b"#!/bin/sh\n", "isn't a 64-bit Linux shared library"),
        (b"\x7fELF\x01\x01" + bytes(100), "isn't a 64-bit Linux shared library"),
        (b"\x7fELF\x02\x01" + bytes(20), "is damaged"),
    ],
)
def test_other_file_is_an_error(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "libtorch.so"
    path.write_bytes(data)
    with pytest.raises(ElfError, match=message):
        needs(path)


def test_truncated_library_is_an_error(tmp_path: Path) -> None:
    whole = built("_thin").read_bytes()
    path = tmp_path / "cut.so"
    for length in range(1, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ElfError):
            needs(path)


def test_corrupt_byte_never_crashes(tmp_path: Path) -> None:
    """Changing any byte gives either an error or a result, never a crash."""
    whole = built("_thin").read_bytes()
    path = tmp_path / "wrong.so"
    for at in range(0, len(whole), 61):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            needs(path)
        except ElfError:
            continue
