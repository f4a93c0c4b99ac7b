"""hashmap: many strings, frames, stacks, pools and addresses get distinct ids in linear time."""

from __future__ import annotations

import random

import memreplay as mr
from tests import build
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops


def strings_of(texts: list[bytes]) -> mr.Snapshot:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().string("zz")
    ops.empty_list().mark()
    for text in texts:
        ops.op("SHORT_BINUNICODE", bytes([len(text)]) + text)
    return mr.open(bytes(ops.appends().setitems().stop()))


def test_many_strings_get_one_id_each() -> None:
    known = strings_of([]).native.n_strings
    texts = [f"{i:x}" * (i % 9) for i in range(1, 20_000)]
    snap = strings_of([t.encode() for t in texts * 2])
    assert snap.native.n_strings == known + len({"", "zz", *texts}) - 2
    found = {snap.text(i) for i in range(snap.native.n_strings)}
    assert found >= set(texts)


def test_strings_that_differ_in_length_or_one_byte_are_distinct() -> None:
    zeros = [b"\0" * n for n in range(1, 200)]
    close = [b"a" * i + b"b" + b"a" * (40 - i) for i in range(41)]
    snap = strings_of(zeros + close)
    found = [snap.text(i) for i in range(snap.native.n_strings)]
    assert len(set(found)) == len(found)
    assert {t.decode() for t in zeros + close} <= set(found)


def test_many_random_addresses_stay_distinct() -> None:
    rng = random.Random(5)
    builder = SnapshotBuilder(times=False)
    live: list[int] = []
    for _ in range(4_000):
        live.append(rng.choice((0, 2**63)) + rng.randrange(2**36) * 512)
        builder.alloc(live[-1], 1)
        if rng.random() < 0.4:
            builder.free_completed(live.pop(rng.randrange(len(live))), 1)
    snapshot = builder.finish_segments().build()
    snap = assert_like_oracle(build.dump(snapshot), snapshot)
    assert snap.replay().end_bytes == len(set(live))


def test_regularly_spaced_addresses_stay_distinct() -> None:
    for step in (1, 512, 2**21, 2**44):
        builder = SnapshotBuilder(times=False)
        for i in range(10_000):
            builder.alloc(i * step % 2**64, 1)
        for i in range(10_000):
            builder.free_completed(i * step % 2**64, 1)
        replay = mr.open(build.dump(builder.build())).replay()
        assert (replay.peak.bytes, replay.end_bytes, replay.double_allocs) == (10_000, 0, 0)


def test_many_frames_stacks_and_pools_get_one_id_each() -> None:
    builder = SnapshotBuilder(times=False)
    for i in range(6_000):
        frames = [(f"f{i % 70}", f"{i % 50}.py", i), ("main", "t.py", i % 3)]
        builder.alloc(i, 1, frames=frames, pool_id=(i % 77, i))
    snap = mr.open(build.dump(builder.build()))
    assert snap.native.n_stacks == 6_001
    assert snap.native.n_frames == 6_004
    for i in range(0, 6_000, 7):
        frame = snap.stack(int(snap.events.stack[i]))[0]
        assert frame == mr.Frame(f"f{i % 70}", f"{i % 50}.py", i)
        assert snap.pool_id(int(snap.events.pool[i])) == (i % 77, i)


def test_equal_parts_are_stored_once() -> None:
    builder = SnapshotBuilder()
    for i in range(50):
        builder.alloc(i, 1, frames=[("f", "a.py", 1)], pool_id=(1, 2))
    shared = mr.open(build.dump(builder.build()))
    apart = mr.open(build.dump_unshared(builder.build()))
    for snap in (shared, apart):
        assert (snap.native.n_stacks, snap.native.n_frames) == (2, 2)
        assert len(set(snap.events.pool.tolist())) == 1
