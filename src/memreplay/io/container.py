"""Unwrap compressed files, zip archives and HTML pages. They are recognized by content, not by
name.
"""

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

# Magic numbers of file types that users pass by mistake, each with a message and a hint.
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

# Magic numbers of the wrappers. A zstd file may start with a skippable frame, as pzstd writes it.
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

DEPTH = 2  # maximum nesting of wrappers, such as a .pkl.gz in a .zip
HEAD = 512  # number of bytes to inspect; tar's magic number is at 257
PIECE = 32 << 10  # compressed bytes per read; small enough for the output to stay in the CPU cache
SLOW_FROM = 8 << 20  # bytes; a read-ahead thread pays off for larger uncompressed files
# output bytes below which the ratio isn't checked, because small files can be very repetitive
BOMB_FROM = 64 << 20
XZ_MEMORY = 512 << 20  # `xz -9` needs 65 MiB
# compressed bytes per call; a call can't be interrupted and can return 32 MiB
ZSTD_SLICE = 1 << 10
SHOWN = 5  # maximum number of a zip's file names in an error
LONGEST = 160  # maximum length of text from the file in an error, in characters


class Stream(Struct, eq=False):
    """A stream of a snapshot's plain bytes.

    Attributes
    ----------
    name : str
        What to call the source in messages.
    kind : str
        "pickle" for an unwrapped file, otherwise the wrappers: "gzip", "zip", "gzip in zip" ….
    total : int or None
        Size of the source in bytes, as stored (compressed); None if unknown.
    slow : bool
        Whether reading takes time but never blocks for long, in which case a read-ahead thread pays
        off.
    readinto : callable
        Fills a writable buffer and returns the number of bytes; 0 at the end.
    position : callable
        Returns the number of bytes read from the source, as stored.
    close : callable
        Closes the source.
    head : bytes
        First plain bytes.
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
        """Read to the end of a compressed stream, so that its checksum is verified.

        `read_on` reads the next plain bytes and discards them. Data after the snapshot isn't read.
        Raises TruncatedError or SnapshotError.
        """
        if self.kind != "pickle":
            read_on()


def open_stream(source: Source, ratio: int = Limits().decompression_ratio) -> Stream:
    """Open `source`.

    The caller must call `close()`.

    `ratio` is `Limits.decompression_ratio`.

    Raises
    ------
    OSError
        The path or URL can't be opened, or is a directory.
    SnapshotError
        The content has another known type, or is wrapped in an unsupported way.
    MissingExtraError
        The package for the URL or for zstandard is not installed.
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
            from memreplay.io.viewer_page import PageSnapshots  # imported late: few files are pages

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
    """Return the kind of wrapper that starts with `head`; None if it isn't a wrapper."""
    for magic, what, hint in FOREIGN:
        if head.startswith(magic):
            raise SnapshotError(what, offset=0, hint=hint)
    if head[257:262] == b"ustar":
        raise SnapshotError("tar archives are not supported", offset=0, hint=UNPACK)
    for magic, kind in MAGIC:
        if head.startswith(magic):
            return kind
        if 0 < len(head) < len(magic) and magic.startswith(head):
            raise TruncatedError(
                f"truncated file: need {len(magic)} bytes, got {len(head)}", hint=AGAIN
            )
    text = head.removeprefix(_BOM).lstrip()
    return "html" if text.startswith(b"<") and re.match(_HTML, text) else None


def _after(head: bytes, fill: Fill) -> Fill:
    """Return a reader for `head` followed by the bytes from `fill`."""
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
    # A wrapper's output. Checks how much larger the output is than the bytes read from the file.

    def __init__(self, kind: str, fill: Fill, raw: Raw, ratio: int) -> None:
        self._kind, self._fill, self._raw, self._ratio = kind, fill, raw, ratio
        self._given = 0

    def __call__(self, view: memoryview) -> int:
        n = self._fill(view)
        self._given += n
        taken = self._raw.taken
        if self._given > BOMB_FROM and self._given > self._ratio * taken:
            raise LimitError(
                f"decompression_ratio is over the limit of {self._ratio}: {self._kind} "
                f"decompressed {taken} bytes to {self._given}",
                hint="raise it with --limit decompression_ratio=N if the file is known to be good",
            )
        return n


# ---- one compressed stream after another ---------------------------------------------------------


class _Members:
    # Concatenated streams of one kind: gzip members, zstd frames, xz or bzip2 streams. Zeros
    # between and after the streams are skipped, because tapes and xz use zeros as padding.

    def __init__(self, kind: str, source: Fill, raw: Raw) -> None:
        self._kind = kind
        self._source = source
        self._raw = raw
        self._make, self._errors = _MAKERS[kind]()
        self._one = self._make()
        self._piece = memoryview(bytearray(PIECE))
        self._rest = b""  # bytes read but not yet passed to a decompressor

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
        """Start the next stream. Returns False if there is none."""
        self._rest = self._one.unused_data.lstrip(b"\0")
        while not self._rest:
            data = self._read()
            if not data:
                return False
            self._rest = data.lstrip(b"\0")
        self._one = self._make()
        return True


class _Gzip:
    # Gives zlib's decompressor the same interface as the others.

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
    # Gives the zstandard package's decompressor the same interface as the others. That decompressor
    # returns all output for its input at once, so the input is passed in slices.

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
    """Return the name in the local header at the start of a zip.

    signature 4 | version 2, flags 2, method 2, time 4 | CRC 4, sizes 8 | name length 2, extra 2 |
    name …
    """
    length = int.from_bytes(head[26:28], "little")
    return head[30 : 30 + length].decode("utf-8", "replace")


def _open_zip(raw: Raw, head: bytes) -> tuple[ZipFile, ZipInfo]:
    import zipfile

    if not zipfile.is_zipfile(raw):
        # a truncated zip's first header still has a file name
        nameless = len(head) >= 30 and head[26:28] == b"\0\0"
        if nameless or _first_name(head).endswith("/data.pkl"):
            raise SnapshotError(TORCH_SAVE, offset=0, hint=RECORD)
        raise TruncatedError(
            "truncated zip: its central directory, at the end of the file, is missing",
            hint=AGAIN,
        )
    try:
        archive = zipfile.ZipFile(raw)
    except OSError as error:
        raise _zip_error(raw, error) from None
    # zipfile raises many different exceptions if the central directory is damaged
    except Exception as error:
        raise _damaged("zip", raw.taken, error) from None
    return archive, _only_file(archive)


def _only_file(archive: ZipFile) -> ZipInfo:
    # macOS adds a metadata file for each file in an archive
    files = [
        info
        for info in archive.infolist()
        if not info.filename.endswith("/") and not info.filename.startswith("__MACOSX/")
    ]
    if not files:
        raise SnapshotError("the zip archive is empty", hint=RECORD)
    if len(files) > 1:
        names = [info.filename for info in files]
        if any(name.endswith(("/data.pkl", "/version")) for name in names):
            raise SnapshotError(TORCH_SAVE, offset=0, hint=RECORD)
        shown = ", ".join(map(printable, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
        raise SnapshotError(
            f"the zip archive has {len(names)} files instead of one: {shown}",
            hint="unpack it and pass the snapshot",
        )
    (info,) = files
    name = printable(info.filename)
    if info.flag_bits & 1:
        raise SnapshotError(f"{name} in the zip archive is encrypted", hint=UNPACK)
    if info.compress_type not in (0, 8):
        raise SnapshotError(
            f"{name} uses zip compression method {info.compress_type}; only deflate is supported",
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
    """Return the source's own error unchanged, but report an impossible seek as damage."""
    return _damaged("zip", raw.taken, error) if error.errno == errno.EINVAL else error


# ---- errors --------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Shorten text from a file and remove control characters."""
    return clean_short(text, LONGEST)


def _cut(kind: str, taken: int) -> TruncatedError:
    return TruncatedError(
        f"truncated {kind} stream after {taken} compressed bytes",
        hint=AGAIN,
    )


def _damaged(kind: str, taken: int, error: Exception) -> SnapshotError:
    words = printable(str(error)) or type(error).__name__
    if "memory" in words.lower():  # it was compressed with a huge window (zstd --long=31)
        return SnapshotError(f"this {kind} stream needs too much memory: {words}", hint=UNPACK)
    return SnapshotError(
        f"damaged {kind} stream after {taken} compressed bytes: {words}",
        hint="copy the file again",
    )
