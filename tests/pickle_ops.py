"""Write pickles opcode by opcode."""

from __future__ import annotations

import pickletools
import struct


class Ops:
    """Assemble a raw pickle: `bytes(Ops().proto(2).empty_list().integer(1).append().stop())`.

    Nothing is checked. `op` takes any opcode by its name in pickletools; the other methods are
    shortcuts.
    """

    def __init__(self) -> None:
        self._out = bytearray()

    def __bytes__(self) -> bytes:
        return bytes(self._out)

    def __len__(self) -> int:
        return len(self._out)

    def raw(self, data: bytes) -> Ops:
        self._out += data
        return self

    def op(self, name: str, argument: bytes = b"") -> Ops:
        return self.raw(_CODES[name] + argument)

    # Framing

    def proto(self, version: int) -> Ops:
        return self.op("PROTO", bytes([version]))

    def frame(self, size: int) -> Ops:
        return self.op("FRAME", struct.pack("<Q", size))

    def stop(self) -> Ops:
        return self.op("STOP")

    # Containers

    def mark(self) -> Ops:
        return self.op("MARK")

    def empty_list(self) -> Ops:
        return self.op("EMPTY_LIST")

    def empty_dict(self) -> Ops:
        return self.op("EMPTY_DICT")

    def append(self) -> Ops:
        return self.op("APPEND")

    def appends(self) -> Ops:
        return self.op("APPENDS")

    def setitem(self) -> Ops:
        return self.op("SETITEM")

    def setitems(self) -> Ops:
        return self.op("SETITEMS")

    # Values

    def string(self, text: str) -> Ops:
        """Push a string: SHORT_BINUNICODE if it fits, otherwise BINUNICODE."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) < 256:
            return self.op("SHORT_BINUNICODE", bytes([len(data)]) + data)
        return self.binunicode(text)

    def binunicode(self, text: str) -> Ops:
        data = text.encode("utf-8", "surrogatepass")
        return self.op("BINUNICODE", struct.pack("<I", len(data)) + data)

    def strings(self, *texts: str) -> Ops:
        for text in texts:
            self.string(text)
        return self

    def integer(self, value: int) -> Ops:
        """Push an integer with the shortest of BININT1, BININT2, BININT and LONG1."""
        if 0 <= value < 2**8:
            return self.op("BININT1", struct.pack("<B", value))
        if 0 <= value < 2**16:
            return self.op("BININT2", struct.pack("<H", value))
        if -(2**31) <= value < 2**31:
            return self.op("BININT", struct.pack("<i", value))
        return self.long1(value, value.bit_length() // 8 + 1)

    def long1(self, value: int, width: int) -> Ops:
        """Push a LONG1 of exactly this many bytes."""
        return self.op("LONG1", bytes([width]) + value.to_bytes(width, "little", signed=True))

    # Memo

    def memoize(self) -> Ops:
        return self.op("MEMOIZE")

    def put(self, number: int) -> Ops:
        """Write BINPUT, or LONG_BINPUT from 256 up."""
        if number < 256:
            return self.op("BINPUT", bytes([number]))
        return self.op("LONG_BINPUT", struct.pack("<I", number))

    def get(self, number: int) -> Ops:
        """Write BINGET, or LONG_BINGET from 256 up."""
        if number < 256:
            return self.op("BINGET", bytes([number]))
        return self.op("LONG_BINGET", struct.pack("<I", number))


_CODES = {op.name: op.code.encode("latin-1") for op in pickletools.opcodes}
