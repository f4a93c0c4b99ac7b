"""Write pickles opcode by opcode, like CPython's C pickler (protocol 4) or TorchScript's (2).

Both write a tree of plain Python objects (`save`) and accept ready-made bytes for parts too
numerous to build as objects (`put`). Each writer has its own rules for the memo:

- PythonPickler memoises every str, tuple, list and dict at first use, by identity, and writes
  FRAMEs.
- CppPickler memoises every str by value, and lists and dicts after their contents if they were
  passed to `share`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

FRAME_TARGET = 64 * 1024
BATCH = 1000

# The number of argument bytes after each opcode that `put` chunks may contain. For LONG1 and
# SHORT_BINUNICODE, the first byte is the length.
_ARGUMENT_BYTES = {b"h"[0]: 1, b"j"[0]: 4, b"K"[0]: 1, b"M"[0]: 2, b"J"[0]: 4}
_COUNTED = frozenset(b"\x8a\x8c")
# MARK, MEMOIZE, APPENDS, APPEND, SETITEMS and SETITEM, which never start an object.
_NOT_A_START = frozenset(b"(\x94eaus")


def small_int(n: int) -> bytes:
    """Return BININT1, BININT2 or BININT; n must fit in 32 bits."""
    if 0 <= n <= 0xFF:
        return b"K" + n.to_bytes(1, "little")
    if 0 <= n <= 0xFFFF:
        return b"M" + n.to_bytes(2, "little")
    return b"J" + n.to_bytes(4, "little", signed=True)


def get(index: int) -> bytes:
    """Return BINGET or LONG_BINGET."""
    if index <= 0xFF:
        return b"h" + index.to_bytes(1, "little")
    return b"j" + index.to_bytes(4, "little")


class PythonPickler:
    """Writes the same bytes as `pickle.dump(obj, file, protocol=4)`."""

    name = "python"

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._written = 2
        self.memo_length = 0
        # Keep the object next to its index, because its id() must stay unique.
        self._memo: dict[int, tuple[int, object]] = {}
        self.buffer = bytearray()
        write(b"\x80\x04")

    @property
    def position(self) -> int:
        """Return the number of bytes written so far, including the open frame."""
        return self._written + len(self.buffer)

    # -- frames: CPython ends a frame at the first object that begins past the target size

    def _commit(self, end: int) -> None:
        payload = bytes(self.buffer[:end])
        # For fewer than four bytes, CPython doesn't write a frame header.
        if end >= 4:
            self._write(b"\x95" + struct.pack("<Q", end))
            self._written += 9
        self._write(payload)
        self._written += end
        del self.buffer[:end]

    def split(self, start: int) -> None:
        """Close the frame, which has reached its target size, in the data appended at `start`."""
        buffer = self.buffer
        at = start
        while at < len(buffer):
            opcode = buffer[at]
            if at >= FRAME_TARGET and opcode not in _NOT_A_START:
                self._commit(at)
                return
            if opcode in _COUNTED:
                at += 2 + buffer[at + 1]
            else:
                at += 1 + _ARGUMENT_BYTES.get(opcode, 0)

    def put(self, chunk: bytes) -> None:
        """Append complete opcodes that were rendered elsewhere."""
        start = len(self.buffer)
        self.buffer += chunk
        if start + len(chunk) >= FRAME_TARGET:
            self.split(start)

    def _begin_object(self) -> None:
        if len(self.buffer) >= FRAME_TARGET:
            self._commit(len(self.buffer))

    # -- the memo

    def _memoize(self, obj: object) -> None:
        self._memo[id(obj)] = (self.memo_length, obj)
        self.memo_length += 1
        self.buffer += b"\x94"

    def index(self, obj: object) -> int | None:
        entry = self._memo.get(id(obj))
        return None if entry is None else entry[0]

    def share(self, obj: object) -> None:
        """Do nothing, because this pickler memoises everything."""

    # -- objects

    def integer(self, n: int) -> bytes:
        if -(2**31) <= n < 2**31:
            return small_int(n)
        length = (n.bit_length() >> 3) + 1
        return b"\x8a" + bytes([length]) + n.to_bytes(length, "little", signed=True)

    def save(self, obj: object) -> None:
        self._begin_object()
        known = self.index(obj)
        if obj is True or obj is False:
            self.buffer += b"\x88" if obj else b"\x89"
        elif isinstance(obj, int):
            self.buffer += self.integer(obj)
        elif isinstance(obj, float):
            self.buffer += b"G" + struct.pack(">d", obj)
        elif known is not None:
            self.buffer += get(known)
        elif isinstance(obj, str):
            self._save_str(obj)
        elif isinstance(obj, tuple):
            self._save_pair(obj)
        elif isinstance(obj, list):
            self.buffer += b"]"
            self._memoize(obj)
            self._save_items(obj)
        elif isinstance(obj, dict):
            self.buffer += b"}"
            self._memoize(obj)
            self._save_pairs(list(obj.items()))
        else:
            raise TypeError(f"no opcode here for {type(obj).__name__}")

    def _save_str(self, text: str) -> None:
        data = text.encode()
        if len(data) < 256:
            self.buffer += b"\x8c" + bytes([len(data)]) + data
        else:
            self.buffer += b"X" + struct.pack("<I", len(data)) + data
        self._memoize(text)

    def _save_pair(self, pair: tuple[object, ...]) -> None:
        first, second = pair
        self.save(first)
        self.save(second)
        self.buffer += b"\x86"
        self._memoize(pair)

    def _save_items(self, items: list[object]) -> None:
        if len(items) == 1:
            self.save(items[0])
            self.buffer += b"a"
            return
        for start in range(0, len(items), BATCH):
            self.buffer += b"("
            for item in items[start : start + BATCH]:
                self.save(item)
            self.buffer += b"e"

    def _save_pairs(self, pairs: list[tuple[object, object]]) -> None:
        if len(pairs) == 1:
            self.save(pairs[0][0])
            self.save(pairs[0][1])
            self.buffer += b"s"
            return
        for start in range(0, len(pairs), BATCH):
            self.buffer += b"("
            for key, value in pairs[start : start + BATCH]:
                self.save(key)
                self.save(value)
            self.buffer += b"u"

    # -- containers whose items are added one by one

    def open_dict(self) -> None:
        """Start a dict of two to a thousand items; `save` its keys and values in turn."""
        self._begin_object()
        self.buffer += b"}\x94("
        self.memo_length += 1

    def close_dict(self, _shared: bool) -> None:
        self.buffer += b"u"

    def open_list(self, length: int) -> None:
        self._begin_object()
        self.buffer += b"]\x94"
        self.memo_length += 1
        if length > 1:
            self.buffer += b"("

    def next_batch(self) -> None:
        """Start a new batch between two items of a streamed list if needed: CPython appends a
        thousand at a time.
        """
        self.buffer += b"e("

    def close_list(self, length: int, _shared: bool) -> None:
        if length:
            self.buffer += b"e" if length > 1 else b"a"

    def finish(self) -> None:
        self.buffer += b"."
        self._commit(len(self.buffer))


class CppPickler:
    """Writes the same bytes as torch::jit::Pickler without type tags, as `_memory_snapshot_pickled`
    uses it.
    """

    name = "cpp"

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._written = 0
        self.memo_length = 0
        self._strings: dict[str, int] = {}
        self._containers: dict[int, int] = {}
        # Objects that the C++ program references more than once, by id. Keeping the object keeps
        # its id valid.
        self._shared: dict[int, object] = {}
        self.buffer = bytearray(b"\x80\x02")

    @property
    def position(self) -> int:
        return self._written + len(self.buffer)

    def _flush(self) -> None:
        self._write(bytes(self.buffer))
        self._written += len(self.buffer)
        self.buffer.clear()

    def put(self, chunk: bytes) -> None:
        self.buffer += chunk
        if len(self.buffer) >= FRAME_TARGET:
            self._flush()

    def binput(self) -> bytes:
        """Write BINPUT or LONG_BINPUT with the next memo index."""
        index = self.memo_length
        self.memo_length += 1
        if index <= 0xFF:
            return b"q" + index.to_bytes(1, "little")
        return b"r" + index.to_bytes(4, "little")

    def index(self, obj: object) -> int | None:
        if isinstance(obj, str):
            return self._strings.get(obj)
        return self._containers.get(id(obj))

    def share(self, obj: object) -> None:
        """Declare that C++ references this container more than once, so that it's memoised."""
        self._shared[id(obj)] = obj

    def integer(self, n: int) -> bytes:
        if -(2**31) <= n < 2**31:
            return small_int(n)
        # Above 2**63, C++ casts the number to int64_t, which sets the sign bit.
        return b"\x8a\x08" + (n & (2**64 - 1)).to_bytes(8, "little")

    def save(self, obj: object) -> None:
        known = self.index(obj)
        if known is not None:
            self.put(get(known))
        elif obj is True or obj is False:
            self.put(b"\x88" if obj else b"\x89")
        elif isinstance(obj, int):
            self.put(self.integer(obj))
        elif isinstance(obj, float):
            self.put(b"G" + struct.pack(">d", obj))
        elif isinstance(obj, str):
            data = obj.encode()
            self._strings[obj] = self.memo_length
            self.put(b"X" + struct.pack("<I", len(data)) + data + self.binput())
        elif isinstance(obj, tuple):
            first, second = obj
            self.save(first)
            self.save(second)
            self.put(b"\x86")
        elif isinstance(obj, list):
            self.put(b"](")
            for item in obj:
                self.save(item)
            self._close(obj, b"e")
        elif isinstance(obj, dict):
            self.put(b"}(")
            for key, value in obj.items():
                self.save(key)
                self.save(value)
            self._close(obj, b"u")
        else:
            raise TypeError(f"no opcode here for {type(obj).__name__}")

    def _close(self, obj: object, opcode: bytes) -> None:
        if id(obj) in self._shared:
            self._containers[id(obj)] = self.memo_length
            opcode += self.binput()
        self.put(opcode)

    def open_dict(self) -> None:
        self.put(b"}(")

    def close_dict(self, shared: bool) -> None:
        self.put(b"u" + (self.binput() if shared else b""))

    def open_list(self, _length: int) -> None:
        self.put(b"](")

    def next_batch(self) -> None:
        """Do nothing, because TorchScript's pickler appends all items at once."""

    def close_list(self, _length: int, shared: bool) -> None:
        self.put(b"e" + (self.binput() if shared else b""))

    def finish(self) -> None:
        self.buffer += b"."
        self._flush()
