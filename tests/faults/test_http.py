"""If a server lies, stalls or redirects in circles, commands soon print one error line, and no
numbers from another file.
"""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import Iterable

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from memreplay.commands.app import app
from memreplay.io import ranges
from tests import build
from tests.commanding import command_runner
from tests.faults.lying_server import Answer, head, lying, part

KIB = 1 << 10
FRAMES = [("f", "x.py", 1)]
LIMIT_S = 12.0  # generous, because the machine may be busy; normally each takes a second or two


def snapshot(size: int, events: int = 12_000) -> bytes:
    """Return a snapshot whose peak is `size`."""
    made = build.SnapshotBuilder()
    for at in range(events):
        made.alloc(0x1000 + at * 512, size if at == 7 else 0, frames=FRAMES)
    return build.dump(made.build())


DATA = snapshot(70_000)
OTHER = snapshot(90_000)
Piece = "bytes | float"
Asked = "tuple[int, int] | None"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE", 128 * KIB)
    monkeypatch.setattr(ranges, "PARALLEL", 2)
    monkeypatch.setattr(ranges, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(ranges, "STALL_S", 0.5)
    monkeypatch.setattr(ranges, "TRIES", 2)


def probe(answer: Answer) -> Answer:
    """Answer the first request correctly, and all later ones as specified."""

    def answered(number: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        if asked == (0, 0):
            return [part(DATA, (0, 0))]
        return answer(number, asked)

    return answered


def peak(answer: Answer) -> tuple[int, str, int | None]:
    """Return the exit code, the messages, and the reported peak."""
    with lying(answer) as server:
        began = time.monotonic()
        done = command_runner().invoke(app, ["peak", server.url, "--json"])
        assert time.monotonic() - began < LIMIT_S
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        words = done.stderr.replace(server.url, "URL")
    told = json.loads(done.stdout)["devices"][0]["peak_bytes"] if done.stdout else None
    return done.exit_code, words, told


def refused(answer: Answer, *words: str, code: int = 3) -> None:
    """Check that the command prints a single error line with these words, and no numbers."""
    exit_code, said, told = peak(answer)
    assert (exit_code, told) == (code, None), said
    assert said.count("\n") == 1, said
    assert said.startswith("memreplay: error: URL: "), said
    for word in words:
        assert word in said
    assert "Error" not in said, said
    assert "None" not in said, said


# ---- correct servers ----------------------------------------------------------------------------


def test_correct_server_works() -> None:
    assert len(DATA) > 3 * 128 * KIB
    assert peak(lambda _, asked: [part(DATA, asked or (0, len(DATA) - 1))]) == (0, "", 70_000)


def test_missing_rest_of_a_range_is_requested_again() -> None:
    """The server answers each long range with only its first 70 KiB."""

    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        assert asked is not None
        start, stop = asked
        if stop - start < 70 * KIB:
            return [part(DATA, asked)]
        return [part(DATA, (start, start + 70 * KIB))]

    assert peak(probe(answer)) == (0, "", 70_000)


def test_surplus_bytes_are_ignored() -> None:
    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        assert asked is not None
        return [part(DATA, (asked[0], asked[1] + 5000))]

    assert peak(probe(answer)) == (0, "", 70_000)


# ---- lengths ------------------------------------------------------------------------------------


def test_rest_of_a_cut_off_range_is_requested_until_progress_stalls() -> None:
    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        assert asked is not None
        return [part(DATA, asked)[:-40_000]]

    # memreplay keeps the received bytes and requests the rest, but gives up if there's hardly any
    # progress.
    def nothing(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        assert asked is not None
        return [part(DATA, asked)[:300]]

    refused(probe(answer), "gave up at byte")
    refused(probe(nothing), "gave up at byte")


@pytest.mark.parametrize("less", [1, 50_000])
def test_file_shorter_than_its_content_length_is_an_error(less: int) -> None:
    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=len(DATA)), DATA[:-less]]

    refused(answer)


def test_file_longer_than_its_content_length_is_cut_off() -> None:
    """Bytes beyond the content length aren't read, so the data is truncated and no numbers are
    reported.
    """

    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=len(DATA) - 10_000), DATA]

    refused(answer, "cut off", code=4)


@pytest.mark.parametrize("length", ["-1", "many", "99999999999999999999999", "1, 2"])
def test_invalid_content_length_is_an_error(length: str) -> None:
    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=length), DATA]

    refused(answer)


# ---- ranges -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    ["bytes 0-{stop}/{size}", "bytes 7-{stop}/{size}", "bytes", "", "lines {start}-{stop}/{size}"],
)
def test_response_with_the_wrong_range_is_an_error(place: str) -> None:
    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        assert asked is not None
        if asked[0] == 0:
            return [part(DATA, asked)]
        said = place.format(start=asked[0], stop=asked[1], size=len(DATA))
        return [part(DATA, (0, asked[1] - asked[0]), Content_Range=said)]

    refused(probe(answer), "the server ignored the requested range")


def test_whole_file_in_response_to_a_later_range_is_an_error() -> None:
    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=len(DATA)), DATA]

    refused(probe(answer), "the server ignored the requested range")


def test_file_that_changes_between_ranges_is_an_error() -> None:
    changed: tuple[dict[str, str | None], ...] = ({"ETag": '"2"'}, {"Content_Range": None})
    for other in changed:

        def answer(
            _: int, asked: tuple[int, int] | None, other: dict[str, str | None] = other
        ) -> Iterable[bytes | float]:
            assert asked is not None
            if asked[0] == 0:
                return [part(DATA, asked)]
            said = dict(other)
            if "Content_Range" in said:  # has another size
                said["Content_Range"] = f"bytes {asked[0]}-{asked[1]}/{len(DATA) + 1}"
            return [part(OTHER, asked, **said)]  # type: ignore[arg-type]

        refused(probe(answer), "the file was replaced while it was read")


# ---- encodings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "x-nobody-knows"])
def test_unrequested_encoding_is_an_error(encoding: str) -> None:
    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        assert asked is not None
        return [part(DATA, asked, Content_Encoding=encoding)]

    refused(probe(answer), encoding)


def test_whole_file_is_requested_if_ranges_are_compressed() -> None:
    """Ranges would refer to the compressed bytes."""
    packed = gzip.compress(DATA)

    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        if asked is not None:
            return [part(packed, asked, Content_Encoding="gzip")]
        return [head("200 OK", Content_Length=len(packed), Content_Encoding="gzip"), packed]

    assert peak(answer) == (0, "", 70_000)


def test_body_that_does_not_match_its_encoding_is_an_error() -> None:
    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=len(DATA), Content_Encoding="gzip"), DATA]

    refused(answer)


def test_file_compressed_by_the_server_can_be_read() -> None:
    packed = gzip.compress(DATA)

    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("200 OK", Content_Length=len(packed), Content_Encoding="gzip"), packed]

    assert peak(answer) == (0, "", 70_000)


# ---- endless responses --------------------------------------------------------------------------


def drip(data: bytes) -> Iterable[bytes | float]:
    """Send bytes slowly."""
    for at in range(len(data)):
        yield data[at : at + 1]
        yield 0.05


@pytest.mark.parametrize("whole", [False, True])
def test_server_that_trickles_bytes_causes_a_timeout_error(whole: bool) -> None:
    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        if whole or asked is None:
            yield head("200 OK", Content_Length=len(DATA))
            yield from drip(DATA)
        else:
            said = part(DATA, asked)
            begin = said.index(b"\r\n\r\n") + 4
            yield said[:begin]
            yield from drip(said[begin:])

    refused(answer if whole else probe(answer), "gave up")


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
@pytest.mark.parametrize("when", ["first", "range", "whole"])
def test_endless_headers_are_an_error(pause_s: float, when: str) -> None:
    def endless() -> Iterable[bytes | float]:
        yield b"HTTP/1.1 200 OK\r\n"
        for number in itertools.count():
            yield b"X-%d: %s\r\n" % (number, b"x" * 1000)
            yield pause_s

    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        if when == "whole" and asked is not None:
            return [head("200 OK", Content_Length=len(DATA)), DATA]
        return endless()

    refused(probe(answer) if when == "range" else answer)


def test_endless_header_line_is_an_error() -> None:
    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        yield b"HTTP/1.1 200 OK\r\nX: "
        for _ in itertools.count():
            yield b"x" * 1000

    refused(answer)


@pytest.mark.parametrize("whole", [False, True])
def test_silent_server_causes_a_timeout_error(whole: bool) -> None:
    def answer(_: int, asked: tuple[int, int] | None) -> Iterable[bytes | float]:
        if whole and asked is not None:
            return [head("200 OK", Content_Length=len(DATA)), DATA]
        return [30.0]

    refused(answer, "gave up", "no data for")


@pytest.mark.parametrize("where", ["URL", "/snap.pkl", "//", "file:///etc/passwd", ""])
def test_redirect_loop_is_an_error(where: str) -> None:
    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        return [head("302 Found", Location=where, Content_Length=0)]

    refused(answer)


def test_endless_file_is_rejected_early() -> None:
    """The file is soon recognised as something other than a snapshot."""

    def answer(_: int, __: tuple[int, int] | None) -> Iterable[bytes | float]:
        yield head("200 OK")
        yield DATA[:-1]
        while True:
            yield b"\xff" * 65_536

    exit_code, said, told = peak(answer)
    assert (exit_code, told, said.count("\n")) == (3, None, 1), said
