"""ranges: reading from a real object store that stalls, resets or refuses connections gives the
bytes or a one-line error.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest
from fsspec.asyn import get_loop

import memreplay as mr
from memreplay.commands.app import app
from memreplay.io import ranges
from memreplay.io.ranges import RangeReader
from memreplay.io.sources import open_source
from memreplay.io.urls import StoreError
from tests import build
from tests.commanding import command_runner
from tests.faulty_proxy import Faults, Proxy
from tests.object_store import ObjectStore

KIB = 1 << 10
DATA = random.Random(21).randbytes(1000 * KIB + 17)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use ranges and delays suited to a 1 MB file."""
    monkeypatch.setattr(ranges, "RANGE", 128 * KIB)
    monkeypatch.setattr(ranges, "ENOUGH", 4 * KIB)
    monkeypatch.setattr(ranges, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(ranges, "LONGEST_WAIT_S", 0.05)
    monkeypatch.setattr(ranges, "STALL_S", 0.5)


@pytest.fixture
def url(store: ObjectStore) -> str:
    store.put("data.bin", DATA)
    return f"s3://{store.bucket}/data.bin"


def read(url: str, piece: int = 10_000) -> bytes:
    raw = open_source(url)
    out = bytearray()
    try:
        while got := raw.read(piece):
            out += got
    finally:
        raw.close()
    return bytes(out)


def gets(proxy: Proxy) -> list[tuple[int, int]]:
    """Return the first and last byte of each GET."""
    found = [asked for method, _, asked in proxy.seen if method == "GET" and asked]
    return [tuple(map(int, asked[6:].split("-"))) for asked in found]  # type: ignore[misc]


def test_snapshot_is_read_from_an_object_store(store: ObjectStore, proxy: Proxy) -> None:
    data = build.dump(build.SnapshotBuilder().alloc(0x1000, 64).build())
    store.put("run/rank0.pickle", data)
    url = f"s3://{store.bucket}/run/rank0.pickle"
    snap = mr.open(url)
    assert (snap.native.n_events, snap.file, snap.file_bytes) == (1, url, len(data))
    assert len(proxy.seen) == 2  # one for the version, one for the bytes


def test_ranges_are_requested_in_parallel(proxy: Proxy, url: str) -> None:
    proxy.faults.rate = 2000 * KIB
    assert read(url) == DATA
    expected = [
        (start, min(start + ranges.RANGE, len(DATA)) - 1)
        for start in range(0, len(DATA), ranges.RANGE)
    ]
    assert sorted(gets(proxy)) == expected
    assert proxy.most_at_once == ranges.PARALLEL


def test_memory_is_bounded(proxy: Proxy, url: str) -> None:
    raw = open_source(url)
    assert raw.read(1) == DATA[:1]
    time.sleep(0.3)
    # Only the range being read and the next few are requested, never the rest.
    assert len(gets(proxy)) == ranges.PARALLEL
    raw.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    {
        "resets": Faults(resets=20, after=50 * KIB),
        "closed early": Faults(closes=20, after=50 * KIB),
        "nothing at all": Faults(resets=4),
        "stalls": Faults(stalls=4, after=100 * KIB),
        "503": Faults(refused=5),
        "500": Faults(refused=5, status=500),
        "429": Faults(refused=3, status=429),
        "refuses to say what it is": Faults(refused_heads=3, status=503),
        "a limited rate": Faults(rate=800 * KIB),
    }.items(),
    ids=lambda case: case[0],
)
def test_faults_of_a_store_do_not_change_the_bytes(
    proxy: Proxy, url: str, faults: tuple[str, Faults]
) -> None:
    proxy.faults = Faults(**vars(faults[1]))
    assert read(url) == DATA
    for kind in ("resets", "closes", "stalls", "refused", "refused_heads"):
        assert getattr(proxy.faults, kind) < max(1, getattr(faults[1], kind))  # the fault occurred


def test_interrupted_range_resumes_where_it_stopped(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PARALLEL", 1)
    proxy.faults = Faults(closes=1, after=100 * KIB)
    assert read(url) == DATA
    assert gets(proxy)[:3] == [
        (0, 128 * KIB - 1),
        (100 * KIB, 128 * KIB - 1),
        (128 * KIB, 256 * KIB - 1),
    ]


def test_retries_with_progress_do_not_use_up_the_limit(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "RANGE", len(DATA))
    proxy.faults = Faults(closes=3 * ranges.TRIES, after=50 * KIB)
    assert read(url) == DATA
    assert proxy.faults.closes == 0
    # Occasional drops are not a reason to continue forever.
    monkeypatch.setattr(ranges, "ENOUGH", 64 * KIB)
    proxy.faults = Faults(closes=3 * ranges.TRIES, after=50 * KIB)
    with pytest.raises(OSError, match=f"^gave up at byte {50 * KIB * ranges.TRIES} of "):
        read(url)


GIVES_UP = {
    "it stalls": (Faults(stalls=999, after=10), "no data for 0 s"),
    "it resets": (Faults(resets=999, after=10), ""),
    "it refuses": (Faults(refused=999, status=500), "the server says 500"),
    "it closes": (Faults(closes=999, after=10), ""),
}


@pytest.mark.parametrize("faults, words", GIVES_UP.values(), ids=GIVES_UP)
def test_error_after_the_last_try_takes_one_line(
    proxy: Proxy, url: str, faults: Faults, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # botocore's own
    monkeypatch.setattr(ranges, "TRIES", 3)
    proxy.faults = Faults(**vars(faults))
    raw = open_source(url)
    began = time.monotonic()
    said = set()
    for _ in range(2):  # a second read isn't mistaken for the end of the file
        with pytest.raises(
            OSError, match=r"^gave up at byte [0-9]+ of 1024017 after 3 tries: "
        ) as e:
            raw.read()
        said.add(str(e.value))
    raw.close()
    (line,) = said
    assert words in line
    assert "\n" not in line
    assert line.endswith("; " + ranges.AGAIN)
    assert time.monotonic() - began < 8
    proxy.faults = Faults(**vars(faults))
    done = command_runner().invoke(app, ["peak", url])
    assert (done.exit_code, done.output.count("\n")) == (3, 1)
    assert done.output.startswith(f"memreplay: error: {url}: gave up at byte ")
    assert "hidden" not in done.output + line  # the secret key


def test_slowness_counts_only_time_spent_waiting() -> None:
    pace = ranges.Pace()
    for _ in range(9):
        pace.took(ranges.LEAST // 9 + 1, ranges.STALL_S / 9)
    pace.took(1, ranges.STALL_S * 0.9)  # another period starts
    with pytest.raises(ranges.TooSlowError) as failed:
        pace.took(ranges.LEAST - 2, ranges.STALL_S * 0.2)
    assert ranges.failure_reason(failed.value) == "fewer than 1,024 bytes in 0 s"
    pace = ranges.Pace()
    for _ in range(100):
        pace.took(ranges.LEAST, ranges.STALL_S)
    pace.took(1, 0)


def test_retry_waits_as_long_as_the_server_says() -> None:
    class BusyError(Exception):
        status = 429
        headers = {"Retry-After": "7"}  # noqa: RUF012

    assert ranges._retry_after(BusyError()) == 7
    BusyError.headers = {"Retry-After": "86400"}
    assert ranges._retry_after(BusyError()) == ranges.LONGEST_ASKED_S
    BusyError.headers = {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}
    assert ranges._retry_after(BusyError()) == ranges._retry_after(OSError()) == 0


def on_the_third_get(action: Callable[[], None]) -> Callable[[str, str], None]:
    seen = [0]

    def before(method: str, asked: str) -> None:
        seen[0] += method == "GET"
        if seen[0] == 3:
            action()

    return before


@pytest.mark.slow
@pytest.mark.parametrize("other", [DATA[::-1], DATA[:-1], b"x"], ids=["as long", "shorter", "tiny"])
def test_file_replaced_while_it_is_read_is_an_error(
    store: ObjectStore, proxy: Proxy, url: str, other: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PARALLEL", 1)
    proxy.faults.before = on_the_third_get(lambda: store.put("data.bin", other))
    with pytest.raises(OSError, match=r"^the file was replaced while it was read, at byte 262144"):
        read(url)


def test_file_deleted_while_it_is_read_is_an_error(
    store: ObjectStore, proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PARALLEL", 1)
    path = f"{store.bucket}/data.bin"
    proxy.faults.before = on_the_third_get(lambda: store.system().rm(path))
    with pytest.raises(OSError, match=r"^the file was deleted while it was read, at byte 262144"):
        read(url)


def test_abandoned_range_fails_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise asyncio would print a traceback to stderr."""

    class File:
        size = 3 * ranges.RANGE

        async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
            if start == 0:
                yield bytes(stop)
            while not is_read.is_set():
                await asyncio.sleep(0.001)
            has_loop.set()
            failing.wait(10)
            raise StoreError("no")

    is_read, has_loop, failing = (threading.Event() for _ in range(3))
    reader = RangeReader(File(), get_loop())
    assert reader.readinto(memoryview(bytearray(1))) == 1
    is_read.set()
    assert has_loop.wait(10)
    reader.close()
    failing.set()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), get_loop()).result(10)
    gc.collect()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), get_loop()).result(10)
    assert caplog.text == ""


def test_refused_credentials_are_not_retried(
    proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = open_source(url)
    proxy.faults = Faults(refused=99, status=403)
    with pytest.raises(OSError, match=r"the server says 403 .*, at byte 0 of 1024017$"):
        raw.read()
    assert proxy.faults.refused >= 99 - ranges.PARALLEL  # not requested again
    raw.close()


def test_seeking_moves_the_position(proxy: Proxy, url: str) -> None:
    raw = open_source(url)
    assert raw.seekable()
    assert (raw.seek(-4, os.SEEK_END), raw.read()) == (len(DATA) - 4, DATA[-4:])
    assert (raw.seek(500_000), raw.read(9), raw.tell()) == (500_000, DATA[500_000:500_009], 500_009)
    before = len(proxy.seen)
    assert (raw.seek(11, os.SEEK_CUR), raw.read(9)) == (500_020, DATA[500_020:500_029])
    assert len([asked for asked in proxy.seen[before:] if "bytes=500" in asked[2]]) == 0
    assert (raw.seek(3), raw.read(4), raw.seek(5 << 20), raw.read(4)) == (
        3,
        DATA[3:7],
        5 << 20,
        b"",
    )
    raw.close()
