"""Reads of values that a dry run doesn't compute, and kernels that may have written them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.runtime import built
from tests.unit.dryrun.fake_torch import compile_
from tests.unit.dryrun.library import CARD, MIB, load, malloc, places


def test_reads_of_unknown_values_are_counted(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, here = malloc(gpu, MIB), ctypes.create_string_buffer(b"12345678", 8)
    back = ctypes.create_string_buffer(8)

    def read(from_: int) -> bytes:
        gpu.cudaMemcpy(back, c_void_p(from_), c_size_t(8), 2)
        return back.raw

    gpu.cudaMemcpy(c_void_p(at), here, c_size_t(8), 1)
    assert (read(at), places(gpu)) == (b"12345678", [])
    assert (read(at + 8), read(at + 4)) == (bytes(8), bytes(8))  # the first half of at + 4 is known
    assert places(gpu) == [("read", 2)]
    gpu.memreplay_count_places(0)
    assert (read(at + 8), places(gpu)) == (bytes(8), [("read", 2)])
    gpu.memreplay_count_places(1)
    assert places(gpu) == []


def test_read_is_reported_with_its_stack(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)
    source = "\n" * 6 + "def inner():\n    read()\ninner()\n"
    names = {"read": lambda: gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)}
    exec(compile(source, "/me/a file.py", "exec"), names)
    gpu.memreplay_place.restype = ctypes.c_char_p
    operator, sizes, *frames = gpu.memreplay_place(0, byref(c_uint64())).decode().split("\n")
    assert (operator, sizes) == ("read", "0")
    assert frames[0] == __file__
    assert frames[3:9] == ["/me/a file.py", "8", "inner", "/me/a file.py", "9", "<module>"]
    assert len(frames) % 3 == 0


def test_free_memory_is_an_estimate_unless_the_allocator_asks(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    code = (
        "#include <stddef.h>\n"
        "int ask(int (*how)(size_t *, size_t *)) { size_t a, b; return how(&a, &b) + (a > b); }\n"
    )
    (tmp_path / "lib").mkdir()
    for name in ("libc10_cuda.so", "libtorch_python.so"):
        asking = ctypes.CDLL(str(compile_(tmp_path / "lib", code, name, "-shared", "-fPIC")))
        assert asking.ask(gpu.cudaMemGetInfo) == asking.ask(gpu.cuMemGetInfo_v2) == 0
    assert places(gpu) == [("mem_get_info", 2)]


def test_frame_without_a_line_number_is_reported(tmp_path: Path) -> None:
    """CPython reports line -1 for such code."""
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)
    names = {"read": lambda: gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)}
    code = compile("read()", "/me/made.py", "exec")
    # Make a table in which no code has a position (Objects/locations.md). Before Python 3.11, the
    # table has pairs of a length and -128.
    length = len(code.co_code)
    units = length // 2
    table = bytes([0xF8 | (n - 1) for n in [8] * (units // 8) + [units % 8] if n])
    if sys.version_info < (3, 11):
        table = bytes([length, 0x80])
    exec(code.replace(co_linetable=table), names)
    gpu.memreplay_place.restype = ctypes.c_char_p
    _, _, *frames = gpu.memreplay_place(0, byref(c_uint64())).decode().split("\n")
    assert frames[3:6] == ["/me/made.py", "0", "<module>"]


def test_call_sites_beyond_the_limit_are_counted_together(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)
    names = {"read": lambda: gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)}
    for i in range(5000):
        exec(compile("read()", f"{i}.py", "exec"), names)
    found = places(gpu)
    assert len(found) <= 4096
    assert sum(times for _, times in found) == 5000


def test_no_python_code_runs_for_a_read(tmp_path: Path) -> None:
    """Otherwise a signal handler might run, and its exception would be lost."""
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, back = malloc(gpu, MIB), ctypes.create_string_buffer(8)

    class UpError(Exception):
        pass

    def up(*_: object) -> None:
        raise UpError

    before = signal.signal(signal.SIGALRM, up)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(UpError):  # noqa: PT012 - it comes at any of them
            while True:
                gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)
    finally:
        signal.signal(signal.SIGALRM, before)


# --- memory that a kernel may have written


def launch(gpu: Any, *arguments: Any) -> None:
    """Launch a kernel with these arguments, as nvcc's host code does."""
    values = [ctypes.pointer(one) for one in arguments]
    given = (c_void_p * len(values))(*(ctypes.cast(one, c_void_p).value for one in values))
    assert (
        gpu.cudaLaunchKernel(c_void_p(16), c_uint64(1), 1, c_uint64(1), 1, given, c_size_t(0), None)
        == 0
    )


def test_arguments_of_an_unknown_kernel_become_unknown(tmp_path: Path) -> None:
    gpu = load(tmp_path, CARD)
    gpu.memreplay_count_places(1)
    at, here = malloc(gpu, MIB), ctypes.create_string_buffer(b"12345678", 8)
    back = ctypes.create_string_buffer(8)
    gpu.cudaMemcpy(c_void_p(at), here, c_size_t(8), 1)
    launch(gpu, ctypes.c_int(3))  # on the heap, where the other arguments are unknown
    gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)
    assert (back.raw, places(gpu)) == (b"12345678", [("read", 1)])
    gpu.cudaMemcpy(c_void_p(at), here, c_size_t(8), 1)  # known again
    gpu.cudaMemcpy(back, c_void_p(at), c_size_t(8), 2)
    assert places(gpu) == [("read", 1)]


LAUNCHES = """
#include <stdio.h>
#include <string.h>
typedef unsigned long u64;
int cudaLaunchKernel(const void *, u64, unsigned, u64, unsigned, void **, u64, void *);
int cudaGraphLaunch(void *, void *), cudaMalloc(void **, u64);
int cudaMemcpy(void *, const void *, u64, int);
void memreplay_count_places(int), memreplay_block(u64, int), memreplay_touch(const u64 *, u64);
const char *memreplay_place(int, u64 *);
struct given { char before[40]; void *one; };
/* As nvcc makes it: the arguments' values are this function's own. */
__attribute__((noinline)) static void kernel(int n, struct given by) {
    void *arguments[] = {&n, &by};
    cudaLaunchKernel((void *)16, 1, 1, 1, 1, arguments, 0, 0);
}
static u64 doubts(void *at) {
    static u64 before;
    u64 value, count = 0, all = 0;
    cudaMemcpy(&value, at, 8, 2);
    for (int i = 0; memreplay_place(i, &count); i++)
        all += count;
    u64 more = all - before;
    before = all;
    return more;
}
static void *pool; /* and no address of a block stays on the stack of main */
static char *at(int i) { return (char *)pool + 512 * i; }
static u64 value = 7;
__attribute__((noinline)) static void know(void) {
    for (int i = 0; i < 3; i++)
        cudaMemcpy(at(i), &value, 8, 1);
}
__attribute__((noinline)) static void launch(void) {
    struct given by = {.one = at(1) + 64}; /* within the second block */
    kernel(5, by);
}
__attribute__((noinline)) static void say(void) {
    u64 one = doubts(at(0)), two = doubts(at(1));
    printf("%lu%lu%lu ", one, two, doubts(at(2)));
}
int main(void) {
    memreplay_count_places(1);
    cudaMalloc(&pool, 2 << 20);
    for (int i = 0; i < 3; i++)
        memreplay_block((u64)at(i), 1);
    know();
    launch();
    say();
    know();
    u64 words[] = {1, (u64)at(2), 3};
    memreplay_touch(words, 3);
    say();
    cudaMemcpy(at(2), &value, 8, 1);
    cudaMemcpy(at(1), at(2), 8, 3);
    say();
    cudaGraphLaunch(0, 0);
    cudaMemcpy(at(0), &value, 8, 1);
    cudaMemcpy(at(1), at(2), 8, 3); /* a copy of what is in doubt is, too */
    say();
    return 0;
}
"""


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
def test_blocks_passed_to_a_kernel_become_unknown(tmp_path: Path, optimized: str) -> None:
    made = compile_(tmp_path, LAUNCHES, "launches", optimized, str(built("_gpu")))
    # Without Python, the call site of a read is unknown, but the read is counted.
    done = subprocess.run(
        [made],
        env={**os.environ, "LD_PRELOAD": str(built("_gpu"))},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "010 001 000 011 "
