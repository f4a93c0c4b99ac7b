"""Unwraps what a snapshot is packed in, told by content and not by name, into plain bytes."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from memreplay.errors import LimitError, MissingExtraError, SnapshotError, TruncatedError
from memreplay.io.limits import Limits
from memreplay.io.raw import Fill, Raw
from memreplay.io.sources import Source, open_source
from memreplay.texts import clean_short

if TYPE_CHECKING:
    from typing import Protocol
    from zipfile import ZipFile, ZipInfo

    class _Decompressor(Protocol):
        # What the decompressors of bz2, lzma and compression.zstd have in common.

        @property
        def eof(self) -> bool: ...
        @property
        def needs_input(self) -> bool: ...
        @property
        def unused_data(self) -> bytes: ...
        def decompress(self, data: Any, max_length: int) -> Any: ...

    Maker = tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]

__all__ = ["Source", "Stream", "open_stream"]

RECORD = "record one with torch.cuda.memory._dump_snapshot(path)"
TABLES = "tables are read from the folder that memreplay export FILE -o DIR/ makes"
UNPACK = "unpack it first"
AGAIN = "the file was cut off; copy or write it again"
TORCH_SAVE = "not a memory snapshot, but a zip archive, as torch.save writes"

# The first bytes of what people hand in by mistake, and what to say of it.
FOREIGN = (
    (b"\x89PNG\r\n\x1a\n", "not a memory snapshot, but a PNG picture", RECORD),
    (b"\xff\xd8\xff", "not a memory snapshot, but a JPEG picture", RECORD),
    (b"%PDF", "not a memory snapshot, but a PDF", RECORD),
    (b"\x7fELF", "not a memory snapshot, but a program", RECORD),
    (b"\x93NUMPY", "not a memory snapshot, but a NumPy array", RECORD),
    (b"PAR1", "not a memory snapshot, but a Parquet file", TABLES),
    (b"ARROW1", "not a memory snapshot, but an Arrow file", TABLES),
    (b"7z\xbc\xaf\x27\x1c", "7z archives are not supported", UNPACK),
)

# The first bytes of what is unwrapped. A zstd file may begin with a frame to skip (pzstd's do).
MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    *((bytes([0x50 + i]) + b"\x2a\x4d\x18", "zstd") for i in range(16)),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_BOM = b"\xef\xbb\xbf"
_HTML = rb"(?is)(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b"

DEPTH = 2  # layers that are unwrapped: a .pkl.gz in a .zip
HEAD = 512  # bytes looked at: a tar's mark is at 257
PIECE = 32 << 10  # compressed bytes at once; what they give should stay in the cache
SLOW_FROM = 8 << 20  # bytes of a plain file from which another thread pays
BOMB_FROM = 64 << 20  # plain bytes before the ratio counts; small ones may be all repetition
XZ_MEMORY = 512 << 20  # `xz -9` needs 65 MiB
ZSTD_SLICE = 1 << 10  # its decoder cannot stop: this gives 32 MiB at the very most
SHOWN = 5  # names of a zip's files in an error
LONGEST = 160  # characters of a file's own words in an error


class Stream(Struct, eq=False):
    """The plain bytes of a snapshot as a stream, and where they came from.

    `kind` is how they were wrapped: "pickle" for not at all, "gzip", "zip", "gzip in zip" ….
    `readinto` fills a writable buffer and returns how many bytes it gave, 0 at the end. `position`
    says how many bytes of the input are consumed, `total` how many there are (None where nobody
    knows): both count the file as it lies there, compressed or not. `slow`: the bytes take
    time, but are sure to come, so that another thread may see to it. `head` are the first of the
    plain bytes.
    """

    name: str
    kind: str
    total: int | None
    slow: bool
    readinto: Fill
    position: Callable[[], int]
    close: Callable[[], None]
    head: bytes = b""

    def check_end(self, read_on: Callable[[], object]) -> None:
        """Looks at the end of a compressed stream of which all was read: its checksum stands there.

        `read_on` reads a bit more, or meets the end. Raises TruncatedError or SnapshotError. What
        follows the snapshot inside is not read.
        """
        if self.kind != "pickle":
            read_on()


def open_stream(source: Source, ratio: int = Limits().decompression_ratio) -> Stream:
    """Opens `source`; the caller calls `close()`. `ratio` is `Limits.decompression_ratio`.

    Raises
    ------
    OSError
        The path or the URL can't be opened (a directory too).
    SnapshotError
        The content is plainly something else, or wrapped in a way that is not read.
    MissingExtraError
        It is a URL or compressed with zstandard, and the package for it is not installed.
    """
    raw = open_source(source)
    try:
        return _unwrap(raw, ratio)
    except BaseException:
        raw.close()
        raise


def _unwrap(raw: Raw, ratio: int) -> Stream:
    kinds: list[str] = []
    fill: Fill = raw.readinto
    position: Callable[[], int] = lambda: raw.taken  # noqa: E731
    while True:
        head = _head_of(fill)
        if not head and not kinds:
            raise SnapshotError("the file is empty", hint="the dump ended before it wrote anything")
        kind = _kind_of(head)
        if kind is None:
            return Stream(
                raw.name,
                " in ".join(reversed(kinds)) or "pickle",
                raw.total,
                not raw.waits and (bool(kinds) or _is_slow(raw)),
                _after(head, fill),
                position,
                raw.close,
                head,
            )
        if len(kinds) == DEPTH:
            layers = " in ".join([kind, *reversed(kinds)])
            raise SnapshotError(f"wrapped more than {DEPTH} times: {layers}", hint=UNPACK)
        if kind == "zip":
            if kinds or not raw.seekable():
                where = f"inside {kinds[-1]}" if kinds else "from a pipe"
                raise _zip_as_a_stream(head, where)
            member = _open_zip(raw, head)
            fill, position = _Metered("zip", _zip_fill(raw, member), raw, ratio), raw.tell
        elif kind == "html":
            from memreplay.io.viewer_page import PageSnapshots  # late: few files are pages

            fill = PageSnapshots(_after(head, fill)).fill
        else:
            fill = _Metered(kind, _Members(kind, _after(head, fill), raw).fill, raw, ratio)
        kinds.append(kind)


def _is_slow(raw: Raw) -> bool:
    return raw.total is None or raw.total >= SLOW_FROM


def _head_of(fill: Fill) -> bytes:
    head = bytearray(HEAD)
    view = memoryview(head)
    n = 0
    while n < HEAD and (more := fill(view[n:])):
        n += more
    return bytes(view[:n])


def _kind_of(head: bytes) -> str | None:
    """What `head` begins; None for what is not wrapped."""
    for magic, what, hint in FOREIGN:
        if head.startswith(magic):
            raise SnapshotError(what, offset=0, hint=hint)
    if head[257:262] == b"ustar":
        raise SnapshotError("tar archives are not read", offset=0, hint=UNPACK)
    for magic, kind in MAGIC:
        if head.startswith(magic):
            return kind
        if 0 < len(head) < len(magic) and magic.startswith(head):
            raise TruncatedError(
                f"truncated file: need {len(magic)} bytes, {len(head)} there", hint=AGAIN
            )
    text = head.removeprefix(_BOM).lstrip()
    return "html" if text.startswith(b"<") and re.match(_HTML, text) else None


def _after(head: bytes, fill: Fill) -> Fill:
    """`fill` with what was already taken from it in front."""
    rest = memoryview(head)

    def both(view: memoryview) -> int:
        nonlocal rest
        if not rest:
            return fill(view)
        n = min(len(view), len(rest))
        view[:n] = rest[:n]
        rest = rest[n:]
        return n

    return both


class _Metered:
    # A layer's output, held against what was read of the file.

    def __init__(self, kind: str, fill: Fill, raw: Raw, ratio: int) -> None:
        self._kind, self._fill, self._raw, self._ratio = kind, fill, raw, ratio
        self._given = 0

    def __call__(self, view: memoryview) -> int:
        n = self._fill(view)
        self._given += n
        taken = self._raw.taken
        if self._given > BOMB_FROM and self._given > self._ratio * taken:
            raise LimitError(
                f"decompression_ratio is over the limit of {self._ratio}: {self._kind} gave "
                f"{self._given} bytes out of {taken}",
                hint="raise it with --limit decompression_ratio=N if the file is known to be good",
            )
        return n


# ---- one compressed stream after another ---------------------------------------------------------


class _Members:
    # Streams of one kind one after another: gzip members, zstd frames, xz and bzip2 streams. There
    # may be zeros between and behind them, as tapes and xz leave them.

    def __init__(self, kind: str, source: Fill, raw: Raw) -> None:
        self._kind = kind
        self._source = source
        self._raw = raw
        self._make, self._errors = _MAKERS[kind]()
        self._one = self._make()
        self._piece = memoryview(bytearray(PIECE))
        self._rest = b""  # read, and not yet given to a decompressor

    def fill(self, view: memoryview) -> int:
        most = len(view)
        while True:
            if self._one.eof and not self._next():
                return 0
            data = b""
            if self._one.needs_input:
                data = self._read()
                if not data:
                    raise _cut(self._kind, self._raw.taken)
            try:
                out = self._one.decompress(data, most)
            except self._errors as error:
                raise _damaged(self._kind, self._raw.taken, error) from None
            if n := len(out):
                view[:n] = out
                return n

    def _read(self) -> bytes:
        data, self._rest = self._rest, b""
        return data or bytes(self._piece[: self._source(self._piece)])

    def _next(self) -> bool:
        """Begins the next stream; False where there is none."""
        self._rest = self._one.unused_data.lstrip(b"\0")
        while not self._rest:
            data = self._read()
            if not data:
                return False
            self._rest = data.lstrip(b"\0")
        self._one = self._make()
        return True


class _Gzip:
    # zlib's decompressor in the form of the others.

    def __init__(self) -> None:
        import zlib

        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(data or self._inner.unconsumed_tail, max_length)


class _Zstandard:
    # The zstandard package's decompressor in the form of the others. It gives all that its input
    # holds, so that it gets the input in slices.

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._in = memoryview(b"")
        self._out = memoryview(b"")

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof) and not self._out

    @property
    def needs_input(self) -> bool:
        return not self._in and not self._out

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data) + bytes(self._in)

    def decompress(self, data: bytes, max_length: int) -> memoryview:
        if data:
            self._in = memoryview(data)
        if not self._out:
            parts = []
            size = 0
            while self._in and size < max_length and not self._inner.eof:
                parts.append(self._inner.decompress(self._in[:ZSTD_SLICE]))
                size += len(parts[-1])
                self._in = self._in[ZSTD_SLICE:]
            self._out = memoryview(b"".join(parts))
        given, self._out = self._out[:max_length], self._out[max_length:]
        return given


def _gzip() -> Maker:
    import zlib

    return _Gzip, (zlib.error,)


def _xz() -> Maker:
    import lzma

    return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY), (lzma.LZMAError,)


def _bzip2() -> Maker:
    import bz2

    return bz2.BZ2Decompressor, (OSError, ValueError)


def _zstd() -> Maker:
    try:
        import zstandard
    except ImportError:
        pass
    else:
        package = zstandard.ZstdDecompressor()
        return lambda: _Zstandard(package.decompressobj()), (zstandard.ZstdError,)
    try:
        from importlib import import_module

        standard: Any = import_module("compression.zstd")  # Python 3.14 and later
    except ImportError:
        raise MissingExtraError("this snapshot is compressed with zstandard", "zst") from None
    return standard.ZstdDecompressor, (standard.ZstdError,)


_MAKERS = {
    "gzip": _gzip,
    "zstd": _zstd,
    "xz": _xz,
    "bzip2": _bzip2,
}


# ---- a zip of one file ---------------------------------------------------------------------------


def _zip_as_a_stream(head: bytes, where: str) -> SnapshotError:
    if _first_name(head).endswith("/data.pkl"):
        return SnapshotError(TORCH_SAVE, offset=0, hint=RECORD)
    return SnapshotError(
        f"a zip archive cannot be read {where}: its table of contents is at its end",
        hint="save it as a file, or unpack it first",
    )


def _first_name(head: bytes) -> str:
    """The name in the local header that a zip begins with.

    signature 4 | version 2, flags 2, method 2, time 4 | CRC 4, sizes 8 | name length 2, extra 2 |
    name …
    """
    length = int.from_bytes(head[26:28], "little")
    return head[30 : 30 + length].decode("utf-8", "replace")


def _open_zip(raw: Raw, head: bytes) -> tuple[ZipFile, ZipInfo]:
    import zipfile

    if not zipfile.is_zipfile(raw):
        # A header that names no file is no zip's that was cut off.
        nameless = len(head) >= 30 and head[26:28] == b"\0\0"
        if nameless or _first_name(head).endswith("/data.pkl"):
            raise SnapshotError(TORCH_SAVE, offset=0, hint=RECORD)
        raise TruncatedError(
            "truncated zip: its table of contents, which stands at the end, is missing",
            hint=AGAIN,
        )
    try:
        archive = zipfile.ZipFile(raw)
    except OSError as error:
        raise _zip_error(raw, error) from None
    except Exception as error:  # of a damaged table zipfile raises whatever comes
        raise _damaged("zip", raw.taken, error) from None
    return archive, _only_file(archive)


def _only_file(archive: ZipFile) -> ZipInfo:
    # macOS adds a file of its own to each that it packs.
    files = [
        info
        for info in archive.infolist()
        if not info.filename.endswith("/") and not info.filename.startswith("__MACOSX/")
    ]
    if not files:
        raise SnapshotError("an empty zip archive: there is no file in it", hint=RECORD)
    if len(files) > 1:
        names = [info.filename for info in files]
        if any(name.endswith(("/data.pkl", "/version")) for name in names):
            raise SnapshotError(TORCH_SAVE, offset=0, hint=RECORD)
        shown = ", ".join(map(printable, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
        raise SnapshotError(
            f"a zip archive of {len(names)} files, but it must hold just one: {shown}",
            hint="unpack it, and name the snapshot",
        )
    (info,) = files
    name = printable(info.filename)
    if info.flag_bits & 1:
        raise SnapshotError(f"{name} in the zip archive is encrypted", hint=UNPACK)
    if info.compress_type not in (0, 8):
        raise SnapshotError(
            f"{name} is compressed with method {info.compress_type} of zip; only deflate is read",
            hint=UNPACK,
        )
    return info


def _zip_fill(raw: Raw, found: tuple[ZipFile, ZipInfo]) -> Fill:
    archive, info = found
    member: Any = None

    def fill(view: memoryview) -> int:
        nonlocal member
        try:
            if member is None:
                member = archive.open(info)
            return int(member.readinto1(view))
        except EOFError:
            raise _cut("zip", raw.taken) from None
        except OSError as error:
            raise _zip_error(raw, error) from None
        except Exception as error:
            raise _damaged("zip", raw.taken, error) from None

    return fill


def _zip_error(raw: Raw, error: OSError) -> Exception:
    """The source's own error as it is; that of a seek to where no table should point, as damage."""
    return _damaged("zip", raw.taken, error) if error.errno == errno.EINVAL else error


# ---- errors --------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """What a file says, as a part of an error: short and plain, whatever it holds."""
    return clean_short(text, LONGEST)


def _cut(kind: str, taken: int) -> TruncatedError:
    return TruncatedError(
        f"truncated {kind} stream after {taken} compressed bytes",
        hint=AGAIN,
    )


def _damaged(kind: str, taken: int, error: Exception) -> SnapshotError:
    words = printable(str(error)) or type(error).__name__
    if "memory" in words.lower():  # packed with a window beyond all measure (zstd --long=31)
        return SnapshotError(f"this {kind} stream takes too much memory: {words}", hint=UNPACK)
    return SnapshotError(
        f"damaged {kind} stream after {taken} compressed bytes: {words}",
        hint="copy the file again",
    )
