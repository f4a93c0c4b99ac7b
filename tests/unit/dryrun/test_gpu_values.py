"""Values that the host computes: what is known of device memory, and what operators read."""

from __future__ import annotations

import ctypes
import mmap
import resource
from ctypes import byref, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

import pytest

from tests.unit.dryrun.library import CARD, GIB, MIB, load, malloc, places, read, write

UNKNOWN, KNOWN, SAMPLED, ASSUMED, CHOSEN, BLANK, DOUBTFUL = range(7)
OUTSIDE, NOTED, NOT_NOTED = range(3)
KEY = 7
HOOKED = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_uint16)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Load it once, because each copy reserves addresses for all of its card's memory."""
    library = load(tmp_path_factory.mktemp("card"), CARD)
    for name in ("memreplay_knowledge", "memreplay_is_any_known"):
        getattr(library, name).argtypes = [c_uint64, c_uint64]
    library.memreplay_know.argtypes = [c_uint64, c_uint64, c_int]
    library.memreplay_block.argtypes = [c_uint64, c_int]
    return library


@pytest.fixture
def gpu(library: Any) -> Any:
    library.memreplay_count_places(1)
    library.memreplay_values_begin(None, 0)
    library.memreplay_values_inside(OUTSIDE)
    answer(library, [])
    return library


def compute(gpu: Any, at: int, data: bytes, state: int = KNOWN) -> None:
    """Write values as the host does, because device memory is address space of this process."""
    ctypes.memmove(at, data, len(data))
    assert gpu.memreplay_know(at, len(data), state)


def resident_pages(at: int, n_bytes: int) -> int:
    """Return how many pages of the host this memory takes."""
    found = (ctypes.c_ubyte * (n_bytes // mmap.PAGESIZE))()
    assert ctypes.CDLL(None).mincore(c_void_p(at), c_size_t(n_bytes), found) == 0
    return sum(one & 1 for one in found)


def launch(gpu: Any, at: int) -> None:
    """Launch a kernel that gets this address."""
    argument = c_uint64(at)
    arguments = (c_void_p * 2)(ctypes.addressof(argument))
    gpu.cuLaunchKernel(None, *[1] * 7, None, arguments, None)


def answer(gpu: Any, numbers: list[int], *, rest: bool = False, state: int = KNOWN) -> None:
    gpu.memreplay_answers((c_int64 * len(numbers))(*numbers), len(numbers), rest, state)


def test_computed_values_are_read(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    compute(gpu, at, b"12345678")
    assert read(gpu, at, 8) == b"12345678"
    assert gpu.memreplay_knowledge(at, 8) == KNOWN
    assert gpu.memreplay_knowledge(at + 4, 8) == UNKNOWN
    assert (gpu.memreplay_is_any_known(at + 4, 8), gpu.memreplay_is_any_known(at + 8, 8)) == (1, 0)
    assert places(gpu) == []
    gpu.memreplay_know(at + 2, 2, UNKNOWN)
    assert [gpu.memreplay_knowledge(at + i, 2) for i in (0, 2, 4)] == [KNOWN, UNKNOWN, KNOWN]


def test_least_certain_part_decides(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    compute(gpu, at, bytes(4))
    compute(gpu, at + 4, bytes(4), SAMPLED)
    assert gpu.memreplay_knowledge(at, 8) == SAMPLED
    compute(gpu, at + 8, bytes(4), DOUBTFUL)
    states = [gpu.memreplay_knowledge(at, n) for n in (4, 8, 12, 13)]
    assert states == [KNOWN, SAMPLED, DOUBTFUL, UNKNOWN]


def test_choices_are_counted_apart(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    compute(gpu, at, b"chosen..", CHOSEN)
    assert read(gpu, at, 8) == b"chosen.."
    compute(gpu, at, b"zeros...", BLANK)
    assert read(gpu, at, 8) == b"zeros..."
    gpu.memreplay_place.restype = ctypes.c_char_p
    texts = [gpu.memreplay_place(i, byref(c_uint64())).decode().split("\n") for i in (0, 1)]
    assert [kind for _, kind, *_ in texts] == ["8", "0"]


def test_random_numbers_are_counted_apart(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    compute(gpu, at, b"random..", SAMPLED)
    assert read(gpu, at, 8) == b"random.."
    gpu.memreplay_place.restype = ctypes.c_char_p
    assert gpu.memreplay_place(0, byref(c_uint64())).decode().split("\n")[:2] == ["read", "2"]


def test_large_computed_values_are_read_and_copied(gpu: Any) -> None:
    one, two = malloc(gpu, MIB), malloc(gpu, MIB)
    data = bytes(range(256)) * 1024
    compute(gpu, one, data)
    gpu.cudaMemcpy(c_void_p(two), c_void_p(one), c_size_t(len(data)), 3)
    assert read(gpu, two, len(data)) == data
    write(gpu, two, data)  # copies from the host of this size aren't kept
    assert gpu.memreplay_is_any_known(two, len(data)) == 0


def test_block_that_is_freed_forgets_its_values(gpu: Any) -> None:
    one, two = malloc(gpu, 8 * MIB), malloc(gpu, 8 * MIB)
    for at in (one, two):
        gpu.memreplay_block(at, 1)
        compute(gpu, at, b"x" * (4 * MIB))
    gpu.memreplay_block(one, 0)
    assert gpu.memreplay_is_any_known(one, 8 * MIB) == 0
    assert ctypes.string_at(one, 4 * MIB) == bytes(4 * MIB)  # the system has its pages back
    assert read(gpu, two, 4 * MIB) == b"x" * (4 * MIB)


@pytest.mark.parametrize("parts", [1, 16])
def test_freed_values_take_no_memory_of_the_host(gpu: Any, parts: int) -> None:
    """Blocks that were freed may be where no later block is, so their pages must not stay."""
    step, n_bytes = 512 << 10, (256 << 10) // parts
    at = malloc(gpu, 128 * step)
    for one in range(at, at + 128 * step, step):
        gpu.memreplay_block(one, 1)
        for i in range(parts):
            compute(gpu, one + i * n_bytes, b"x" * n_bytes)
        gpu.memreplay_block(one, 0)
    assert resident_pages(at, 128 * step) <= 128


def test_values_that_become_unknown_take_no_memory_of_the_host(gpu: Any) -> None:
    known, unknown = malloc(gpu, MIB), malloc(gpu, MIB)
    for forget, arguments in (
        (gpu.cudaMemcpy, (c_void_p(known), c_void_p(unknown), c_size_t(MIB), 3)),
        (gpu.cudaMemset, (c_void_p(known), 0, c_size_t(MIB))),
    ):
        compute(gpu, known, b"x" * MIB)
        forget(*arguments)
        assert gpu.memreplay_is_any_known(known, MIB) == 0
        assert resident_pages(known, MIB) == 0


def test_known_values_are_bounded(gpu: Any) -> None:
    at, step = malloc(gpu, 4 * GIB), 62 * MIB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    known = [gpu.memreplay_know(at + i * step, step, KNOWN) for i in range(32)]
    assert known == [1] * 16 + [0] * 16
    compute(gpu, at + 3 * GIB, b"small")
    gpu.memreplay_know(at, step, UNKNOWN)
    assert gpu.memreplay_know(at + 20 * step, step // 2, KNOWN) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize(
    "hooked, inside, state",
    [
        (False, OUTSIDE, DOUBTFUL),
        (True, OUTSIDE, DOUBTFUL),  # the kernel isn't PyTorch's
        (True, NOTED, KNOWN),
        (True, NOT_NOTED, DOUBTFUL),
        (False, NOTED, KNOWN),
    ],
)
def test_kernels_put_in_doubt_what_is_not_noted(
    gpu: Any, hooked: bool, inside: int, state: int
) -> None:
    is_hooked = HOOKED(lambda key: hooked and key == KEY)
    gpu.memreplay_values_begin(is_hooked, KEY)
    at = malloc(gpu, MIB)
    gpu.memreplay_block(at, 1)
    compute(gpu, at, bytes(8))
    before = gpu.memreplay_values_inside(inside)
    launch(gpu, at)
    assert (before, gpu.memreplay_values_inside(before)) == (OUTSIDE, inside)
    assert gpu.memreplay_knowledge(at, 8) == state


def test_without_a_hook_kernels_put_everything_in_doubt(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    gpu.memreplay_block(at, 1)
    compute(gpu, at, bytes(8))
    gpu.memreplay_values_inside(NOTED)
    launch(gpu, at)
    assert gpu.memreplay_knowledge(at, 8) == DOUBTFUL


def test_operator_reads_its_answers(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    answer(gpu, [5, 9])
    numbers = [int.from_bytes(read(gpu, at, n), "little") for n in (8, 4, 8)]
    assert (numbers, places(gpu)) == ([5, 9, 9], [])
    answer(gpu, [])
    assert (read(gpu, at, 8), places(gpu)) == (bytes(8), [("read", 1)])


def test_answers_may_be_doubtful(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    answer(gpu, [3], state=DOUBTFUL)
    assert (read(gpu, at, 4), places(gpu)) == (b"\x03\0\0\0", [("read", 1)])


def test_reads_that_do_not_matter_are_not_counted(gpu: Any) -> None:
    at = malloc(gpu, MIB)
    answer(gpu, [], rest=True)
    assert (read(gpu, at, 64), places(gpu)) == (bytes(64), [])
