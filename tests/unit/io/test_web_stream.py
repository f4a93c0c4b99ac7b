"""Tests of io/web_stream.py: reading a whole file with one request. tests/faults covers lying
servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from memreplay.io import ranges
from memreplay.io.urls import StoreError, system_of
from memreplay.io.web_stream import WebStream
from tests.faults.lying_server import head, lying

DATA = bytes(range(256)) * 1000


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "STALL_S", 0.5)


def opened(url: str) -> WebStream:
    system, path = system_of(url)
    return WebStream(system, path)


def read(stream: Any) -> bytes:
    out = bytearray()
    buffer = memoryview(bytearray(10_000))
    while n := stream.readinto(buffer):
        out += buffer[:n]
    return bytes(out)


@pytest.mark.parametrize("is_said", [True, False])
def test_whole_file_takes_one_request(is_said: bool) -> None:
    said: dict[str, str | int] = {"Content_Length": len(DATA)} if is_said else {}
    with lying(lambda *_: [head("200 OK", **said), DATA[:9], 0.1, DATA[9:]]) as server:
        stream = opened(server.url)
        assert stream.size == (len(DATA) if is_said else None)
        assert stream.readable()
        assert read(stream) == DATA
        assert stream.readinto(memoryview(bytearray(1))) == 0
        stream.close()
    assert server.asked == [None]


def test_server_that_stops_is_reported_every_time() -> None:
    def answer(*_: object) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=len(DATA)), DATA[:1000], 20.0]

    with lying(answer) as server:
        stream = opened(server.url)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"^gave up at byte 1000: no data for 0 s; "):
                read(stream)
        stream.close()


def test_server_that_never_answers_is_an_error() -> None:
    with (
        lying(lambda *_: [20.0]) as server,
        pytest.raises(StoreError, match=r"^gave up: no data for 0 s; run it again later"),
    ):
        opened(server.url)


def test_server_that_sends_very_slowly_is_an_error() -> None:
    def answer(*_: object) -> Iterable[bytes | float]:
        yield head("200 OK", Content_Length=len(DATA))
        for at in range(1000):
            yield DATA[at : at + 1]
            yield 0.05

    with lying(answer) as server:
        stream = opened(server.url)
        with pytest.raises(StoreError, match=r": fewer than 1,024 bytes in 0 s; "):
            read(stream)
        stream.close()


def test_missing_file_is_not_found() -> None:
    with (
        lying(lambda *_: [head("404 Not Found", Content_Length=0)]) as server,
        pytest.raises(FileNotFoundError),
    ):
        opened(server.url)
