"""NCCL's calls: small messages with known contents arrive, everything else is unknown, and waiting
always ends.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.runtime import built
from tests.unit.dryrun.library import MIB, SMALL, load, malloc, read, write

BYTE, INT32, INT64, HALF, FLOAT = 1, 2, 4, 6, 7  # ncclDataType_t
SUM, PRODUCT, MAX, MIN, AVERAGE = range(5)  # ncclRedOp_t
RANKS = 3


class Id(ctypes.Structure):
    _fields_ = [("bytes", c_char * 128)]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tmp_path_factory.mktemp("collectives"), "count=8")


@pytest.fixture
def ranks(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return communicators for one process that has all ranks."""
    putenv(monkeypatch, "MEMREPLAY_GPU_MESSAGES", str(tmp_path))
    putenv(monkeypatch, "MEMREPLAY_GPU_WAIT", "0.2")
    them = (c_void_p * RANKS)()
    assert gpu.ncclCommInitAll(them, RANKS, None) == 0
    assert not list(tmp_path.iterdir())  # all ranks have joined, so the file no longer needs a name
    yield [c_void_p(one) for one in them]
    for one in them:
        assert gpu.ncclCommDestroy(c_void_p(one)) == 0


def putenv(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)  # also calls os.putenv, for C code


@pytest.fixture
def memory(gpu: Any) -> Iterator[list[int]]:
    """A buffer for each rank; its first half is the input."""
    them = [malloc(gpu, 2 * MIB) for _ in range(RANKS)]
    yield them
    for one in them:
        gpu.cudaFree(c_void_p(one))


def ints(gpu: Any, at: int, n: int) -> list[int]:
    return list(struct.unpack(f"={n}i", read(gpu, at, 4 * n)))


def give(gpu: Any, at: int, *values: int) -> None:
    write(gpu, at, struct.pack(f"={len(values)}i", *values))


def all_reduce(
    gpu: Any, ranks: Any, memory: list[int], n: int, operation: int, kind: int = INT32
) -> None:
    for rank, at in zip(ranks, memory, strict=True):
        to = c_void_p(at + MIB)
        assert gpu.ncclAllReduce(c_void_p(at), to, c_size_t(n), kind, operation, rank, None) == 0


@pytest.mark.parametrize(
    "operation, want",
    [(SUM, [60, 6]), (PRODUCT, [6000, 6]), (MAX, [30, 3]), (MIN, [10, 1]), (AVERAGE, [20, 2])],
)
def test_numbers_are_reduced(
    gpu: Any, ranks: Any, memory: list[int], operation: int, want: list[int]
) -> None:
    for i, at in enumerate(memory):
        give(gpu, at, 10 * (i + 1), i + 1)
    all_reduce(gpu, ranks, memory, 2, operation)
    assert [ints(gpu, at + MIB, 2) for at in memory] == [want] * RANKS


def test_value_unknown_to_one_rank_is_unknown_to_all(
    gpu: Any, ranks: Any, memory: list[int]
) -> None:
    for at in memory[1:]:
        give(gpu, at, 7)
    for at in memory:
        give(gpu, at + MIB, 9)
    all_reduce(gpu, ranks, memory, 1, SUM)
    assert [ints(gpu, at + MIB, 1) for at in memory] == [[0]] * RANKS
    give(gpu, memory[0], 7)
    for kind, operation in ((HALF, SUM), (INT32, 1000)):  # not summed here
        all_reduce(gpu, ranks, memory, 1, operation, kind)
        assert ints(gpu, memory[0] + MIB, 1) == [0]


def test_every_rank_gets_its_part(gpu: Any, ranks: Any, memory: list[int]) -> None:
    for i, at in enumerate(memory):
        give(gpu, at, *(100 * i + j for j in range(2 * RANKS)))
    n, place = c_size_t(2), [(c_void_p(at), c_void_p(at + MIB)) for at in memory]
    everything = [100 * i + j for i in range(RANKS) for j in range(2)]

    def got(count: int) -> list[list[int]]:
        return [ints(gpu, at + MIB, count) for at in memory]

    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclAllGather(*both, n, INT32, rank, None) == 0
    assert got(2 * RANKS) == [everything] * RANKS
    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclReduceScatter(*both, n, INT32, SUM, rank, None) == 0
    assert got(2) == [[300 + 3 * j, 300 + 3 * (j + 1)] for j in range(0, 2 * RANKS, 2)]
    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclAlltoAll(*both, n, INT32, rank, None) == 0
    assert got(2 * RANKS) == [
        [100 * i + 2 * me + j for i in range(RANKS) for j in range(2)] for me in range(RANKS)
    ]
    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclBroadcast(*both, n, INT32, 1, rank, None) == 0
    assert got(2) == [[100, 101]] * RANKS
    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclScatter(*both, n, INT32, 2, rank, None) == 0
    assert got(2) == [[200 + 2 * i, 201 + 2 * i] for i in range(RANKS)]
    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclReduce(*both, n, INT32, SUM, 0, rank, None) == 0
    assert got(2) == [[300, 303], [202, 203], [204, 205]]
    for rank, both in zip(ranks, place, strict=True):
        assert gpu.ncclGather(*both, n, INT32, 1, rank, None) == 0
    assert ints(gpu, memory[1] + MIB, 2 * RANKS) == everything


def test_messages_between_two_ranks_keep_their_order(
    gpu: Any, ranks: Any, memory: list[int]
) -> None:
    for value in (1, 2):
        give(gpu, memory[0], value)
        assert gpu.ncclSend(c_void_p(memory[0]), c_size_t(1), INT32, 2, ranks[0], None) == 0
    for place in (0, 4):
        to = c_void_p(memory[2] + place)
        assert gpu.ncclRecv(to, c_size_t(1), INT32, 0, ranks[2], None) == 0
    assert ints(gpu, memory[2], 2) == [1, 2]
    assert gpu.ncclRecv(c_void_p(memory[0]), c_size_t(1), INT32, 9, ranks[2], None) != 0


def test_later_writes_are_kept(gpu: Any, ranks: Any, memory: list[int]) -> None:
    for at in memory:
        give(gpu, at, 5)
    all_reduce(gpu, ranks, memory, 1, SUM)
    first, second, last = (at + MIB for at in sorted(memory))
    give(gpu, first, 1)
    for taken in (1, 0):
        gpu.memreplay_block(c_uint64(last), taken)  # another block starts at this address
    assert [ints(gpu, at, 1) for at in (first, second, last)] == [[1], [15], [0]]


def test_large_messages_are_not_transmitted(gpu: Any, ranks: Any, memory: list[int]) -> None:
    for count, want in ((SMALL, b"x"), (SMALL + 1, b"\0")):
        for at in memory:
            write(gpu, at, b"x" * SMALL)
            write(gpu, at + SMALL, b"x")
        for rank, at in zip(ranks, memory, strict=True):
            place, to = c_void_p(at), c_void_p(at + MIB)
            assert gpu.ncclBroadcast(place, to, c_size_t(count), BYTE, 0, rank, None) == 0
        assert read(gpu, memory[1] + MIB, 1) == want


def test_unread_message_expires(gpu: Any, ranks: Any, memory: list[int]) -> None:
    kept = memory[1] + MIB
    for i in range(30):
        write(gpu, memory[0], bytes([i + 1]) * SMALL)
        gpu.ncclSend(c_void_p(memory[0]), c_size_t(SMALL), BYTE, 1, ranks[0], None)
    for i, want in ((0, 0), (28, 29), (29, 30)):
        for _ in range(i if i < 28 else 1 if i == 29 else 28 - 1):
            gpu.ncclRecv(c_void_p(kept + SMALL), c_size_t(SMALL), BYTE, 0, ranks[1], None)
        if i < 29:
            gpu.ncclRecv(c_void_p(kept), c_size_t(SMALL), BYTE, 0, ranks[1], None)
            assert read(gpu, kept, 1) == bytes([want])
    assert read(gpu, kept + SMALL, 1) == bytes([30])


def test_waiting_has_a_limit(gpu: Any, ranks: Any, memory: list[int]) -> None:
    for _ in range(3):
        to = c_void_p(memory[0])
        assert gpu.ncclRecv(to, c_size_t(1), INT32, 1, ranks[0], None) == 0
        assert ints(gpu, memory[0], 1) == [0]
    begun = time.monotonic()
    gpu.ncclRecv(c_void_p(memory[0]), c_size_t(1), INT32, 1, ranks[0], None)
    assert ints(gpu, memory[0], 1) == [0]
    assert time.monotonic() - begun < 0.15  # one failed attempt is enough


def test_single_number_is_a_barrier(gpu: Any, ranks: Any, memory: list[int]) -> None:
    """Each rank waits for the others, so each needs its own thread."""
    reached: list[int] = []
    os.environ["MEMREPLAY_GPU_WAIT"] = "20"

    def rank(i: int) -> None:
        at = c_void_p(memory[i])
        gpu.ncclAllReduce(at, at, c_size_t(1), FLOAT, SUM, ranks[i], None)
        reached.append(i)

    threads = [threading.Thread(target=rank, args=(i,)) for i in range(RANKS)]
    for one in threads[:-1]:
        one.start()
    time.sleep(0.1)
    assert not reached
    threads[-1].start()
    for one in threads:
        one.join()
    assert sorted(reached) == list(range(RANKS))


def test_groups_are_split_by_colour(gpu: Any, ranks: Any) -> None:
    made = [c_void_p() for _ in range(RANKS)]
    os.environ["MEMREPLAY_GPU_WAIT"] = "20"

    def split(i: int) -> None:
        color = -1 if i == 1 else 4
        assert gpu.ncclCommSplit(ranks[i], color, -i, byref(made[i]), None) == 0

    threads = [threading.Thread(target=split, args=(i,)) for i in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count, rank = c_int(), c_int()
    found = []
    for one in (made[0], made[2]):
        gpu.ncclCommCount(one, byref(count))
        gpu.ncclCommUserRank(one, byref(rank))
        found.append((count.value, rank.value))
    assert found == [(2, 1), (2, 0)]  # ordered by key
    assert made[1].value is None
    for one in (made[0], made[2]):
        gpu.ncclCommDestroy(one)


def test_identifiers_are_unique(gpu: Any) -> None:
    them = [Id() for _ in range(20)]
    for one in them:
        assert gpu.ncclGetUniqueId(byref(one)) == 0
    assert len({bytes(one) for one in them}) == 20


def test_finished_rank_is_not_waited_for(tmp_path: Path) -> None:
    """One process sends a number and exits. The other receives the number, but doesn't wait for a
    second one.
    """
    code = (
        "import ctypes, sys, time\n"
        "from ctypes import byref, c_char, c_int, c_size_t, c_void_p\n"
        "class Id(ctypes.Structure):\n"
        "    _fields_ = [('bytes', c_char * 128)]\n"
        "gpu, rank = ctypes.CDLL(sys.argv[1]), int(sys.argv[2])\n"
        "one, at, out = c_void_p(), c_void_p(), c_int(-1)\n"
        "gpu.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]\n"
        "assert gpu.ncclCommInitRank(byref(one), 2, Id(b'name'), rank) == 0\n"
        "assert gpu.cudaMalloc(byref(at), c_size_t(64)) == 0\n"
        "for i in range(2):\n"
        "    if rank == 0 and i == 0:\n"
        "        gpu.cudaMemcpy(at, byref(c_int(77)), c_size_t(4), 1)\n"
        "        gpu.ncclSend(at, c_size_t(1), 2, 1, one, None)\n"
        "    elif rank == 1:\n"
        "        gpu.ncclRecv(at, c_size_t(1), 2, 0, one, None)\n"
        "        gpu.cudaMemcpy(byref(out), at, c_size_t(4), 2)\n"
        "        print(out.value)\n"
    )
    environment = os.environ | {
        "MEMREPLAY_GPU_MESSAGES": str(tmp_path),
        "MEMREPLAY_GPU_WAIT": "60",
    }
    begun = time.monotonic()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(built("_gpu")), str(rank)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ranks[0].communicate()
    out, _ = ranks[1].communicate()
    assert out.split() == ["77", "0"]
    assert time.monotonic() - begun < 30
    assert not list(tmp_path.iterdir())


# --- ranks that don't run -------------------------------------------------------------------------

SIZE, MINE, OTHER = 6, 4, 1  # of six ranks, two run


@pytest.fixture
def partial(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[c_void_p]]:
    """Return the communicators of the two ranks that run, this one's first."""
    putenv(monkeypatch, "MEMREPLAY_GPU_MESSAGES", str(tmp_path))
    putenv(monkeypatch, "MEMREPLAY_GPU_WAIT", "0.2")
    run = bytes(rank in (MINE, OTHER) for rank in range(SIZE))
    made = []
    for rank in (MINE, OTHER):
        name = Id(f"{tmp_path.name[:40]}{rank}".encode())  # each rank has its own ID
        gpu.memreplay_members(bytes(name).ljust(128, b"\0"), b"channel", SIZE, rank, run)
        made.append(c_void_p())
        assert gpu.ncclCommInitRank(byref(made[-1]), SIZE, name, rank) == 0
    assert not list(tmp_path.iterdir())  # both have joined, so the file no longer needs a name
    yield made
    for one in made:
        assert gpu.ncclCommDestroy(one) == 0


ASSUMED = 3  # enum knowledge in gpu/messages.h


def test_absent_ranks_send_what_this_one_sends(
    gpu: Any, partial: list[c_void_p], memory: list[int]
) -> None:
    mine, to = memory[0], memory[0] + MIB
    give(gpu, mine, 5)
    give(gpu, memory[1], 100)
    n, pointers = c_size_t(1), (c_void_p(mine), c_void_p(to))
    for one, at in zip(partial, memory, strict=False):
        place = c_void_p(at), c_void_p(at + MIB)
        assert gpu.ncclAllReduce(*place, n, INT32, SUM, one, None) == 0
    assert ints(gpu, to, 1) == [5 * (SIZE - 1) + 100]
    assert ints(gpu, memory[1] + MIB, 1) == [100 * (SIZE - 1) + 5]
    assert gpu.memreplay_knowledge(c_uint64(to), c_uint64(4)) == ASSUMED
    for one, at in zip(partial, memory, strict=False):
        place = c_void_p(at), c_void_p(at + MIB)
        assert gpu.ncclAllGather(*place, n, INT32, one, None) == 0
    assert ints(gpu, to, SIZE) == [5, 100, 5, 5, 5, 5]
    assert gpu.memreplay_knowledge(c_uint64(to + 4), c_uint64(4)) == 1  # KNOWN
    assert gpu.ncclBroadcast(*pointers, n, INT32, 2, partial[0], None) == 0
    assert ints(gpu, to, 1) == [5]
    give(gpu, mine, 7)
    assert gpu.ncclScatter(*pointers, n, INT32, 2, partial[0], None) == 0
    assert ints(gpu, to, 1) == [0]  # this rank has nothing to scatter
    assert gpu.memreplay_knowledge(c_uint64(to), c_uint64(4)) == 0


def test_exchange_repeats_what_this_rank_sends_to_itself(
    gpu: Any, partial: list[c_void_p], memory: list[int]
) -> None:
    mine, to, one = memory[0], memory[0] + MIB, partial[0]
    give(gpu, mine, *range(10, 10 + SIZE))
    args = c_size_t(1), INT32
    assert gpu.ncclGroupStart() == 0
    for rank in range(SIZE):
        assert gpu.ncclSend(c_void_p(mine + 4 * rank), *args, rank, one, None) == 0
        assert gpu.ncclRecv(c_void_p(to + 4 * rank), *args, rank, one, None) == 0
    assert gpu.ncclGroupEnd() == 0
    give(gpu, memory[1], 77)
    assert gpu.ncclSend(c_void_p(memory[1]), *args, MINE, partial[1], None) == 0
    want = [10 + MINE] * SIZE
    want[OTHER] = 77
    assert ints(gpu, to, SIZE) == want
    # A message of a pipeline isn't part of an exchange, and doesn't arrive.
    assert gpu.ncclRecv(c_void_p(to), *args, 0, one, None) == 0
    assert ints(gpu, to, 1) == [0]


def test_exchange_of_broadcasts_repeats_this_ranks_one(
    gpu: Any, partial: list[c_void_p], memory: list[int]
) -> None:
    """PyTorch's all_gather with a list may broadcast from each rank in turn."""
    mine, to = memory[0], memory[0] + MIB
    give(gpu, mine, 9)
    assert gpu.ncclGroupStart() == 0
    for root in range(SIZE):
        at = c_void_p(to + 4 * root)
        source = c_void_p(mine) if root == MINE else at
        assert gpu.ncclBroadcast(source, at, c_size_t(1), INT32, root, partial[0], None) == 0
    assert gpu.ncclGroupEnd() == 0
    found = [ints(gpu, to + 4 * rank, 1) for rank in range(SIZE) if rank != OTHER]
    assert found == [[9]] * (SIZE - 1)


def test_barrier_only_waits_for_ranks_that_run(
    gpu: Any, partial: list[c_void_p], memory: list[int]
) -> None:
    os.environ["MEMREPLAY_GPU_WAIT"] = "60"
    begun = time.monotonic()

    def barrier(one: c_void_p, at: int) -> None:
        place = c_void_p(at)
        assert gpu.ncclAllReduce(place, place, c_size_t(1), FLOAT, SUM, one, None) == 0

    threads = [
        threading.Thread(target=barrier, args=both) for both in zip(partial, memory, strict=False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begun < 30


def test_split_of_a_partial_group_is_announced(gpu: Any, partial: list[c_void_p]) -> None:
    made, count, rank = c_void_p(), c_int(), c_int()
    assert gpu.ncclCommSplit(partial[0], 3, 0, byref(made), None) != 0  # nobody knows who is in
    gpu.memreplay_members(None, b"", 3, 2, bytes((1, 0, 1)))
    assert gpu.ncclCommSplit(partial[0], 3, 0, byref(made), None) == 0
    gpu.memreplay_members(None, b"", 0, 0, None)
    gpu.ncclCommCount(made, byref(count))
    gpu.ncclCommUserRank(made, byref(rank))
    assert (count.value, rank.value) == (3, 2)
    gpu.ncclCommDestroy(made)
    assert gpu.ncclCommSplit(partial[0], -1, 0, byref(made), None) == 0
    assert made.value is None


def test_partial_group_can_shrink(gpu: Any, partial: list[c_void_p], memory: list[int]) -> None:
    made, rank = c_void_p(), c_int()
    without = (c_int * 2)(0, OTHER)
    assert gpu.ncclCommShrink(partial[0], without, 2, byref(made), None, 0) == 0
    gpu.ncclCommUserRank(made, byref(rank))
    assert rank.value == MINE - 2
    give(gpu, memory[0], 2)
    place = c_void_p(memory[0]), c_void_p(memory[0] + MIB)
    assert gpu.ncclAllReduce(*place, c_size_t(1), INT32, SUM, made, None) == 0
    assert ints(gpu, memory[0] + MIB, 1) == [2 * (SIZE - 2)]
    gpu.ncclCommDestroy(made)
