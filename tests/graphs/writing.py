"""Write a graph as a pickle: a separate writer that chooses among all equivalent opcodes."""

from __future__ import annotations

import pickletools
import struct
import sys
from typing import NamedTuple

from tests.graphs.choosing import Chooser
from tests.graphs.nodes import Atom, Code, Items, Node, Pairs, count_references, reaches

OP = {op.name: op.code.encode("latin-1") for op in pickletools.opcodes}
BATCH = 1000  # number of items that Python's pickle appends at once
FAR = (63, 255, 256, 300, 4000, 60_000)  # memo indexes larger than any writer would use
UNICODE_ESCAPED = {c: f"\\u{c:04x}" for c in b"\\\0\n\r\x1a"}
# Spellings of numbers that C's strtol and Python's int accept for INT, but no writer uses.
ODD_INTS = (b"+5", b" 7", b"0x1f", b"017", b"0017", b"1_000", b"08", b"0b11", b"5L")


class Style(NamedTuple):
    """How a pickle is written."""

    protocol: int
    memo: str  # which values get a memo entry: "all" (as in pickle), "shared", "few"
    odd: int  # one in this many choices differs from Python's pickle; 0: no choice does
    wild: (
        bool  # use constructs that a reader may reject: containers filled late, values left behind
    )
    frames: int  # FRAMEs: 0: none, 1: one, as pickle writes it, 2: anywhere


class Writer:
    """Writes one graph."""

    def __init__(self, choose: Chooser, style: Style) -> None:
        self.choose = choose
        self.style = style
        self.out: list[bytes] = []  # one opcode each
        self.memo: dict[int, Node] = {}
        self.places: dict[int, int] = {}  # node id -> its memo entry
        self.pinned: set[int] = set()  # memo entries that are still needed
        self.late: list[tuple[int, Node, list[Node] | list[tuple[Node, Node]]]] = []
        self.open: list[int] = []  # ids of the nodes being written
        self.counts: dict[int, int] = {}
        self.cyclic: set[int] = set()

    def whole(self, root: Node) -> bytes:
        """Return the pickle."""
        self.counts, self.cyclic = count_references(root)
        if self.style.wild and self.odd():
            self.left_behind()
        self.write(root)
        while self.late:
            self.fill_late()
        self.op("STOP")
        head = OP["PROTO"] + bytes([self.style.protocol])
        start = head if self.style.protocol >= 2 else b""
        body = start + b"".join(self.framed())
        return body + (b"more" if self.style.wild and self.odd() else b"")

    # ---- opcodes

    def op(self, name: str, argument: bytes = b"") -> None:
        self.out.append(OP[name] + argument)

    def odd(self) -> bool:
        return self.choose.rarely(self.style.odd)

    def framed(self) -> list[bytes]:
        """Return the opcodes, with the FRAMEs that the style asks for."""
        if self.style.frames == 1:
            size = sum(map(len, self.out))
            return [OP["FRAME"] + struct.pack("<Q", size), *self.out]
        if self.style.frames == 0:
            return self.out
        # Insert frames anywhere. Each frame ends at an opcode boundary and within the enclosing
        # frame, because otherwise Python's unpickler loses data between two reads of a file.
        n = len(self.out)
        starts = sorted({self.choose.below(n) for _ in range(1 + self.choose.below(4))})
        lengths = [self.choose.pick((n, 0, self.choose.below(n - at + 1))) for at in starts]
        if sys.version_info >= (3, 14):  # Python's own unpickler rejects nested frames
            ends = [*starts[1:], n]
            lengths = [min(n, end - at) for at, end, n in zip(starts, ends, lengths, strict=True)]
        return self.within(starts, lengths)

    def within(self, starts: list[int], lengths: list[int]) -> list[bytes]:
        """Return the opcodes with a FRAME before each of these positions, covering this many
        opcodes.
        """
        stops: list[int] = []
        for at, length in zip(starts, lengths, strict=True):
            around = [stop for start, stop in zip(starts, stops, strict=False) if start < at < stop]
            stops.append(min([at + length, len(self.out), *around]))
        found = list(self.out)
        for at, stop in sorted(zip(starts, stops, strict=True), reverse=True):
            # Frames nested in this one have already been inserted.
            inside = sum(at < start < stop for start in starts)
            size = sum(map(len, found[at : stop + inside]))
            found.insert(at, OP["FRAME"] + struct.pack("<Q", size))
        return found

    # ---- the memo

    def put(self, node: Node, *, pin: bool = False) -> None:
        """Store the value on top of the stack in the memo."""
        next_one = len(self.memo)
        at = next_one
        if self.odd():
            at = self.choose.pick((next_one + 1, *FAR, *list(self.memo)[:8]))
        if at in self.pinned:
            at = max(self.memo) + 1
        old = self.memo.get(at)
        if old is not None and self.places.get(id(old)) == at:
            del self.places[id(old)]
        natural = 0 if self.style.protocol == 0 else 3 if self.style.protocol >= 4 else 1
        way = self.choose.below(4) if self.odd() else natural
        if way == 3 and at != next_one:
            way = 1
        if way == 1 and at > 255:
            way = 2
        if way == 3:
            self.op("MEMOIZE")
        elif way == 0:
            self.op("PUT", b"%d\n" % at)
        elif way == 1:
            self.op("BINPUT", bytes([at]))
        else:
            self.op("LONG_BINPUT", struct.pack("<I", at))
        self.memo[at] = node
        self.places[id(node)] = at
        if pin:
            self.pinned.add(at)

    def get(self, at: int) -> None:
        """Push a value from the memo."""
        way = self.choose.below(3) if self.odd() else 1 if self.style.protocol else 0
        if way == 0:
            self.op("GET", b"%d\n" % at)
        elif way == 1 and at < 256:
            self.op("BINGET", bytes([at]))
        else:
            self.op("LONG_BINGET", struct.pack("<I", at))

    def wanted(self, node: Node) -> bool:
        """Return whether the style stores this value in the memo."""
        if id(node) in self.cyclic:
            return True
        if self.style.memo == "all":
            return not self.odd()
        return self.style.memo == "shared" and self.counts.get(id(node), 0) > 1

    # ---- values

    def write(self, node: Node) -> None:
        """Push a value."""
        if self.odd():
            self.detour()
        at = self.places.get(id(node))
        if at is not None and (id(node) in self.open or not self.odd()):
            self.get(at)
            return
        if id(node) in self.open and not isinstance(node, Items):
            raise AssertionError("a container that is in itself has an entry")
        if isinstance(node, Atom):
            self.atom(node)
        elif isinstance(node, Code):
            self.out.append(node.opcodes)
        elif isinstance(node, Pairs):
            self.pairs(node)
        elif isinstance(node, Items) and node.kind == "list":
            self.items(node)
        elif isinstance(node, Items):
            self.others(node)
        if self.style.odd and self.odd() and not isinstance(node, (Pairs, Items)):
            self.op("DUP")
            self.op("POP")

    def atom(self, node: Atom) -> None:
        value = node.value
        if value is None:
            self.op("NONE")
        elif isinstance(value, bool):
            if (self.style.protocol < 2) != self.odd():
                self.op("INT", b"01\n" if value else b"00\n")
            else:
                self.op("NEWTRUE" if value else "NEWFALSE")
        elif isinstance(value, int):
            self.integer(value)
        elif isinstance(value, float):
            if (self.style.protocol < 1) != self.odd():
                self.op("FLOAT", repr(value).encode() + b"\n")
            else:
                self.op("BINFLOAT", struct.pack(">d", value))
        else:
            if isinstance(value, str):
                self.text(value)
            else:
                self.data(value)
            if self.wanted(node):
                self.put(node)
            return
        if self.odd():
            self.put(node)

    def integer(self, value: int) -> None:
        size = (value.bit_length() >> 3) + 1
        short = value.to_bytes(size, "little", signed=True)
        long1 = ("LONG1", bytes([len(short)]) + short) if size < 256 else None
        digits = b"%d\n" % value
        ways = [("INT", digits), ("LONG", digits[:-1] + b"L\n"), ("LONG", digits)]
        if long1:
            wide = size + 1 + self.choose.below(4) if self.style.odd and size < 250 else size
            padded = value.to_bytes(wide, "little", signed=True)
            ways += [long1, ("LONG1", bytes([wide]) + padded)]
            ways.append(("LONG4", struct.pack("<I", wide) + padded))
        if not value:
            ways.append(("LONG1", b"\0"))
        binary = []
        if 0 <= value < 1 << 8:
            binary.append(("BININT1", bytes([value])))
        if 0 <= value < 1 << 16:
            binary.append(("BININT2", struct.pack("<H", value)))
        if -(1 << 31) <= value < 1 << 31:
            binary.append(("BININT", struct.pack("<i", value)))
        if self.odd():
            if self.style.wild and self.choose.chance(16):
                self.op("INT", self.choose.pick(ODD_INTS) + b"\n")
            else:
                self.op(*self.choose.pick(ways + binary))
        elif self.style.protocol == 0:
            self.op(*ways[0 if -(1 << 31) <= value < 1 << 31 else 1])
        elif binary:
            self.op(*binary[0])
        else:
            self.op(*(ways[1] if self.style.protocol == 1 or not long1 else long1))

    def text(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        ways = []
        if len(data) < 256:
            ways.append(("SHORT_BINUNICODE", bytes([len(data)]) + data))
        ways.append(("BINUNICODE", struct.pack("<I", len(data)) + data))
        natural = ways[0 if self.style.protocol >= 4 else -1]
        ways.append(("BINUNICODE8", struct.pack("<Q", len(data)) + data))
        escaped = value.translate(UNICODE_ESCAPED).encode("raw-unicode-escape")
        ways.append(("UNICODE", escaped + b"\n"))
        if self.style.protocol == 0:
            natural = ways[-1]
        if value.isascii():
            ways.append(("STRING", repr(value).encode() + b"\n"))
            ways.append(("BINSTRING", struct.pack("<i", len(data)) + data))
            if len(data) < 256:
                ways.append(("SHORT_BINSTRING", bytes([len(data)]) + data))
        self.op(*(self.choose.pick(ways) if self.odd() else natural))

    def data(self, value: bytes | bytearray) -> None:
        if isinstance(value, bytearray):
            self.op("BYTEARRAY8", struct.pack("<Q", len(value)) + value)
        elif len(value) < 256 and not self.odd():
            self.op("SHORT_BINBYTES", bytes([len(value)]) + value)
        elif self.odd():
            self.op("BINBYTES8", struct.pack("<Q", len(value)) + value)
        else:
            self.op("BINBYTES", struct.pack("<I", len(value)) + value)

    # ---- containers

    def begin(self, node: Node, empty: str, marked: str) -> bool:
        """Create an empty container, and memoise it if needed."""
        if (self.style.protocol == 0) != self.odd():
            self.op("MARK")
            self.op(marked)
        else:
            self.op(empty)
        wanted = self.wanted(node)
        late = self.style.wild and self.odd()
        if wanted or late:
            self.put(node, pin=id(node) in self.cyclic or late)
        self.open.append(id(node))
        return late

    def end(self, node: Node) -> None:
        self.open.pop()
        if id(node) in self.cyclic and id(node) not in self.open:
            at = self.places.get(id(node))
            if at is not None and all(at != one for one, _, _ in self.late):
                self.pinned.discard(at)
        elif self.wanted_again(node):
            self.put(node)

    def wanted_again(self, node: Node) -> bool:
        """Return whether to memoise the container (again) once it's filled."""
        return bool(self.style.odd) and self.style.memo != "few" and self.odd()

    def batches(self, n: int) -> list[int]:
        """Return how many items to add at a time; 0 is a MARK without items, -1 one item without a
        MARK.
        """
        wild = self.style.wild
        if self.style.protocol == 0 and not (wild and self.odd()):
            return [-1] * n
        # No writer mixes single items with items under a MARK, except for the last of a thousand.
        if (wild or n > 1) and self.odd():
            found = []
            while n or self.choose.chance(4):
                size = min(n, 3 - self.choose.below(4))
                found.append(size if size != 1 or not wild or self.choose.chance(2) else -1)
                n -= size
            return found
        found = [BATCH] * (n // BATCH) + ([n % BATCH] if n % BATCH else [])
        return [-1 if size == 1 else size for size in found]

    def items(self, node: Items) -> None:
        """Write a list."""
        items = node.items
        if self.style.wild and items and id(node) not in self.cyclic and self.odd():
            self.op("MARK")
            self.sequence(items)
            self.op("LIST")
            if self.wanted(node):
                self.put(node)
            return
        late = self.begin(node, "EMPTY_LIST", "LIST")
        if late and items:
            cut = self.choose.below(len(items) + 1)
            self.late.append((self.places[id(node)], node, items[cut:]))
            items = items[:cut]
        self.append(items)
        self.end(node)

    def append(self, items: list[Node]) -> None:
        at = 0
        for size in self.batches(len(items)):
            if size < 0:
                self.write(items[at])
                self.op("APPEND")
            else:
                self.op("MARK")
                self.sequence(items[at : at + size])
                self.op("APPENDS")
            at += abs(size)

    def sequence(self, items: list[Node]) -> None:
        """Push values one after another, sometimes repeating one with DUP."""
        for before, item in zip([None, *items], items, strict=False):
            if item is before and self.odd():
                self.op("DUP")
            else:
                self.write(item)

    def pairs(self, node: Pairs) -> None:
        """Write a dict."""
        items = node.items
        if self.style.wild and items and id(node) not in self.cyclic and self.odd():
            self.op("MARK")
            for key, value in items:
                self.write(key)
                self.write(value)
            self.op("DICT")
            if self.wanted(node):
                self.put(node)
            return
        late = self.begin(node, "EMPTY_DICT", "DICT")
        if late and items:
            cut = self.choose.below(len(items) + 1)
            self.late.append((self.places[id(node)], node, items[cut:]))
            items = items[:cut]
        self.set_items(items)
        self.end(node)

    def set_items(self, items: list[tuple[Node, Node]]) -> None:
        at = 0
        for size in self.batches(len(items)):
            if size >= 0:
                self.op("MARK")
            for key, value in items[at : at + abs(size)]:
                self.write(key)
                self.write(value)
            self.op("SETITEM" if size < 0 else "SETITEMS")
            at += abs(size)

    def others(self, node: Items) -> None:
        """Write a tuple or a set."""
        n = len(node.items)
        if node.kind == "set":
            self.op("EMPTY_SET")
            if self.wanted(node):
                self.put(node)
            if n or self.odd():
                self.op("MARK")
                self.sequence(node.items)
                self.op("ADDITEMS")
            return
        if node.kind == "frozenset":
            self.op("MARK")
            self.sequence(node.items)
            self.op("FROZENSET")
        elif n == 0 and (self.style.protocol > 0) != self.odd():
            self.op("EMPTY_TUPLE")
        else:
            short = 1 <= n <= 3 and (self.style.protocol >= 2) != self.odd()
            if not short:
                self.op("MARK")
            self.sequence(node.items)
            at = self.places.get(id(node))
            if at is not None and id(node) in self.cyclic:
                # One of the tuple's items has already created and memoised the tuple, as happens in
                # Python's pickle.
                if short:
                    for _ in range(n):
                        self.op("POP")
                else:
                    self.op("POP_MARK")
                self.get(at)
                return
            self.op(f"TUPLE{n}" if short else "TUPLE")
        if self.wanted(node):
            self.put(node)

    # ---- opcodes with no effect

    def detour(self) -> None:
        """Write opcodes whose effects cancel out."""
        what = self.choose.below(12 if self.style.wild else 6)
        if what == 0:
            self.op("NONE")
            self.op("POP")
        elif what == 1:
            self.op("MARK")
            self.op("POP_MARK")
        elif what == 2:
            self.op("MARK")
            self.op("POP")
        elif what == 3:
            self.op("MARK")
            self.integer(self.choose.below(9))
            self.text("size")
            self.op("POP_MARK")
        elif what == 4:
            self.data(b"x" * self.choose.below(4))
            self.op("POP")
        elif what == 5:
            self.text("frames")
            self.op("POP")
        elif what == 6 and self.memo:
            self.get(self.choose.pick(list(self.memo)))
            self.op("POP")
        elif what == 7:
            self.op(self.choose.pick(("EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "EMPTY_SET")))
            self.op("POP")
        elif what == 8:
            self.op("PROTO", bytes([self.choose.below(6)]))
        elif what == 9:
            self.op("EMPTY_LIST")
            self.op("NONE")
            self.op("APPEND")
            self.op("POP")
        elif self.late:
            self.fill_late()

    def fill_late(self) -> None:
        """Write the items that a container initially lacks."""
        chosen = self.choose.below(len(self.late))
        at, node, items = self.late[chosen]
        if self.open and not {id(one) for one in (node, *reaches(node))}.isdisjoint(self.open):
            return  # the value being written may not have an entry
        del self.late[chosen]
        self.get(at)
        self.open.append(id(node))
        if isinstance(node, Pairs):
            self.set_items(items)  # type: ignore[arg-type]
        else:
            self.append(items)  # type: ignore[arg-type]
        self.open.pop()
        self.op("POP")
        self.pinned.discard(at)

    def left_behind(self) -> None:
        """Leave a value below the result on the stack."""
        self.op(self.choose.pick(("NONE", "EMPTY_TUPLE", "MARK", "EMPTY_DICT", "EMPTY_LIST")))
