"""Build graphs shaped like a snapshot: valid according to docs/format.md, or with arbitrary values
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.graphs.choosing import Chooser
from tests.graphs.nodes import Atom, Code, Items, Kind, Node, Pairs, reaches

# Few addresses and sizes, so that frees match allocations, and allocations lie in segments.
BASE = 0x7F00_0000_0000
ADDRESSES = (
    *(BASE, BASE + 512, BASE + 0x10_0000, BASE + 0x10_0200, 0x1000, 512, 2**63 + 0x4000),
    *(-(2**63) + 0x4000, -4096, 2**64 - 4096, 2**31, 0),
)
SIZES = (512, 100, 1, 0, 4096, 2**20, 300, 2**31, 2**40, 77_777, 255, 65_536)
STREAMS = (0, 0, 0, 1, 0x5555_0000_1000, 2**63 + 8, -8)
POOLS = ((0, 0), (0, 1), (3, 0), (2**40, -1))
ACTIONS = (
    *("alloc",) * 7,
    *("free_completed",) * 6,
    *("free_requested",) * 3,
    *("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "snapshot"),
    *("user_defined", "annotate", "workspace_snapshot", "empty_cache", "defragment", "", "a"),
)
STATES = ("active_allocated",) * 4 + ("inactive", "active_pending_free", "active_awaiting_free")
NAMES = ("forward", "main", "at::empty(long)", "", "f\0g", "\0", "naïve 训练", "\ud800", "<lambda>")
FILES = ("model.py", "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "??", "", "é")
LINES = (10, 0, 1, 255, 256, 70_000, 2**31, -1, 2**63 - 1, 2**64 - 1)
TIMES = (0, 1, 1_700_000_000_000_000, -5)
TEXTS = ("N/A", "0/1", "", "x", "\0", "\0y", "step 3", "é\U0001f600", "\ud83d\ude00", "x" * 300)
UNKNOWN = ("category", "new", "Size", "size ", "\0", "categories", "forward_frames", "k" * 300)
UNFORMED: tuple[Any, ...] = ([[1, {"a": "b"}], []], {"a": 1, "b": [None]}, b"x")
NO_TEXTS: tuple[Any, ...] = (None, True, False, 0, 1, 2**70, 1.5, b"size", b"addr", (1, 2), ())
# Numbers at the limits of their types, and values that aren't numbers.
ODD: tuple[Any, ...] = (
    *(None, None, True, False, 0, -1, 1.5, 2.0, 1e300, float("nan"), float("inf"), -0.5),
    *(2**31, 2**32, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**200, -(2**200)),
    *(-(2**31) - 1, -(2**63), -(2**63) - 1, "", "7", "inactive", "\ud800", "\0", "y" * 700),
    *(b"", b"x", bytearray(b"y"), "alloc", 2**1600),
)
CALLS = (
    b"cos\nsystem\n",
    b"\x8c\x02os\x8c\x06system\x93",
    b"cbuiltins\nlist\n)R",
    b"ccollections\nOrderedDict\n)R",
    b"}}b",
    b"}Nb",
    b"cbuiltins\nlist\n)\x81",
    b"cbuiltins\nlist\n)}\x92",
    b"(ibuiltins\nlist\n",
    b"(cbuiltins\nlist\no",
    b"Pthere\n",
    b"NQ",
    b"\x82\x01",
    b"\x83\x01\x00",
    b"\x84\x01\x00\x00\x00",
    b"\x97",
    b"\x98",
    b"ctorch.jit._pickle\nrestore_type_tag\n",
)


class Shaper:
    """Build one snapshot's graph. If `wrong` isn't 0, about one in `wrong` values is replaced by an
    invalid one.
    """

    def __init__(self, choose: Chooser, *, wrong: int, called: bool, alike: int) -> None:
        self.choose = choose
        self.wrong = wrong
        self.called = called  # whether it contains an import or a call
        self.alike = alike  # one in this many lists and dicts is an existing object
        self.atoms: dict[Any, Atom] = {}
        self.frames: list[Node] = []
        self.stacks: list[Node] = []
        self.metadata: list[Node] = []
        self.events: list[Node] = []
        self.made: list[Node] = []
        self.root: Node = Pairs()

    # ---- values

    def shared(self, value: Any) -> Node:
        """Return a node that is reused wherever the value appears, as pickles do for keys and
        names.
        """
        key = (type(value), value)
        return self.atoms.setdefault(key, Atom(value))

    def text(self, several: tuple[str, ...]) -> Node:
        value = self.choose.pick(several)
        return Atom(value) if self.choose.rarely(8) else self.shared(value)

    def number(self, several: tuple[int, ...], most: int = 0) -> Node:
        """Return one of several numbers; with `most`, sometimes any number up to it."""
        if most and self.choose.rarely(6):
            return Atom(self.choose.below(most))
        return Atom(self.choose.pick(several))

    def plain(self, value: Any) -> Node:
        """Return the graph for some Python data."""
        if isinstance(value, dict):
            return Pairs([(self.plain(k), self.plain(v)) for k, v in value.items()])
        if isinstance(value, (list, tuple)):
            kind: Kind = "list" if isinstance(value, list) else "tuple"
            return Items(kind, [self.plain(one) for one in value])
        return Atom(value)

    def kept(self, depth: int = 0) -> Node:
        """Return any JSON data: for metadata and settings."""
        if depth == 0 and self.metadata and self.choose.chance(3):
            return self.choose.pick(self.metadata)
        what = self.choose.below(9 if depth < 3 else 5)
        found: Node
        if what < 2:
            found = self.text(TEXTS)
        elif what == 2:
            found = Atom(self.choose.pick((3, 0, -1, 2**63, 2**64 - 1, True, False, None)))
        elif what == 3:
            found = Atom(self.choose.pick((0.5, -0.0, 1e22, 1e-9, 3.0)))
        elif what == 4:
            found = self.plain(self.choose.pick((((1, 2)), (), [], {})))
        elif what < 7:
            found = Pairs()
            for i in range(self.choose.below(4)):
                key = self.plain(self.choose.pick((f"k{i}", f"k{i}", i + 2, None, (i, 7), i + 0.5)))
                found.items.append((key, self.kept(depth + 1)))
        else:
            kind: Kind = self.choose.pick(("list", "tuple"))
            found = Items(kind, [self.kept(depth + 1) for _ in range(self.choose.below(4))])
        if depth == 0:
            self.metadata.append(found)
        return found

    def odd(self) -> Node:
        """Return a value that is invalid in its place."""
        what = self.choose.below(8)
        if what < 4:
            return Atom(self.choose.pick(ODD))
        if what == 4 and self.made:
            return self.choose.pick((self.root, *self.made))
        if what == 5:
            return self.choose.pick(CONTAINERS)(self)
        if what == 6:
            return self.circle()
        return self.plain(self.choose.pick(((), (1, 2), (1, 2, 3), (1.0, 2), (True, 0), [], {})))

    def circle(self) -> Node:
        """Return a container that contains itself."""
        what = self.choose.below(4)
        if what == 0:
            found: Node = Items("list", [])
            found.items.append(found)  # type: ignore[attr-defined]
            return found
        if what == 1:
            found = Pairs()
            found.items.append((self.shared(self.choose.pick(("a", "frames", "blocks"))), found))
            return found
        inner = Items("list", [])
        inner.items.append(Items("tuple", [inner] * (what - 1)))
        return inner.items[0] if self.choose.chance(2) else inner

    def maybe(self, node: Node) -> Node:
        """Return the value, or sometimes a wrong one."""
        if self.called and self.choose.rarely(150):
            return Code(self.choose.pick(CALLS))
        return self.odd() if self.choose.rarely(self.wrong) else node

    # ---- containers

    def dict(self, *fields: tuple[str, Callable[[], Node] | None]) -> Pairs:
        """Return a dict with these keys; None leaves a key out."""
        found = Pairs()
        if not self.called and self.choose.rarely(self.alike) and self.made:
            again = self.choose.pick(self.made)
            if isinstance(again, Pairs):
                return again
        self.made.append(found)
        for name, make in fields:
            if make is None or self.choose.rarely(self.wrong):
                continue
            key = self.shared(name)
            if self.choose.rarely(self.wrong):
                key = self.maybe_key(name)
            if name in ONCE or not self.choose.rarely(40):
                found.items.append((key, self.maybe(make())))
            else:
                # If a key is repeated, its last value wins.
                found.items.append((key, self.maybe(make())))
                found.items.append((Atom(name), self.maybe(make())))
        if self.choose.rarely(30):
            what = (self.shared(self.choose.pick(UNKNOWN)), self.unknown())
            found.items.insert(self.choose.below(len(found.items) + 1), what)
        if self.choose.rarely(60):
            value = self.choose.pick(NO_TEXTS)
            found.items.append((self.plain(value), self.maybe(Atom(7))))
        return found

    def maybe_key(self, name: str) -> Node:
        if self.choose.chance(2):
            return self.plain(self.choose.pick((name.encode(), name + "\0", name.upper(), None)))
        return self.odd() if self.choose.chance(4) else Atom(self.choose.pick(("addr", "size")))

    def list(self, make: Callable[[], Node], most: int, fewest: int = 0) -> Node:
        """Return a list with up to this many items."""
        found = Items("list", [])
        self.made.append(found)
        for _ in range(fewest + self.choose.below(most + 1 - fewest)):
            found.items.append(self.maybe(make()))
            if self.choose.rarely(self.wrong * 4):
                found.items.append(found.items[-1])
        if self.choose.rarely(self.wrong * 2):
            found.kind = self.choose.pick(("tuple", "set", "frozenset"))
            if any(part is found for part in reaches(found)):
                found.kind = "list"
        return found

    def unknown(self) -> Node:
        """Return the value for an unknown key: arbitrary data."""
        what = self.choose.below(6)
        if what == 0:
            return self.text(TEXTS)
        if what == 1:
            found = self.stack()
            # Known difference: the fast path forgets an empty list, and later rejects it as frames.
            empty = isinstance(found, Items) and not found.items
            return self.text(TEXTS) if empty and not self.wrong else found
        if what == 2:
            return self.frame()
        if what == 3:
            return self.plain(
                self.choose.pick(([[1, {"a": "b"}], []], {"a": 1, "b": [None]}, b"x"))
            )
        if what == 4:
            return Items("set", [Atom(1), self.shared("x")])
        return self.kept(1)

    # ---- the contents of a snapshot

    def frame(self) -> Node:
        if self.frames and not self.choose.chance(4):
            return self.choose.pick(self.frames)
        found = self.dict(
            ("name", lambda: self.text(NAMES)),
            ("filename", lambda: self.text(FILES)),
            ("line", lambda: self.number(LINES)),
            ("fx_node_op", self.rare(lambda: self.shared("call_function"), 12)),
            ("fx_node_target", self.rare(lambda: self.text(TEXTS), 12)),
            ("new", self.rare(lambda: self.text(TEXTS), 20)),
        )
        self.frames.append(found)
        return found

    def rare(self, make: Callable[[], Node], n: int) -> Callable[[], Node] | None:
        return make if self.choose.rarely(n) else None

    def mostly(self, make: Callable[[], Node], n: int = 8) -> Callable[[], Node] | None:
        return None if self.choose.rarely(n) else make

    def stack(self) -> Node:
        if self.stacks and not self.choose.chance(3):
            return self.choose.pick(self.stacks)
        found = self.list(self.frame, 4)
        if isinstance(found, Items) and self.choose.rarely(12):
            found.kind = "tuple"
        self.stacks.append(found)
        return Atom(None) if self.choose.rarely(20) else found

    def pool(self) -> Node:
        one, two = self.choose.pick(POOLS)
        if self.choose.rarely(10):
            return Atom(one)
        kind: Kind = "list" if self.choose.rarely(4) else "tuple"
        return Items(kind, [Atom(one), Atom(two)])

    def time(self) -> Node:
        value = self.choose.pick(TIMES) + self.choose.below(4)
        if self.choose.rarely(16):
            return self.choose.pick((Atom(value + 0.75), Atom(float(value)), Atom(None)))
        return Atom(value)

    def event(self) -> Node:
        choose = self.choose
        form = self.form
        return self.dict(
            ("action", lambda: self.text(ACTIONS)),
            ("addr", self.mostly(lambda: self.number(ADDRESSES), 20)),
            ("size", self.mostly(lambda: self.number(SIZES, 2**34), 20)),
            ("stream", self.mostly(lambda: self.number(STREAMS))),
            ("time_us", self.mostly(self.time) if form & 1 else None),
            ("frames", self.mostly(self.stack) if form & 2 else None),
            ("compile_context", (lambda: self.text(TEXTS[:3])) if form & 4 else None),
            ("user_metadata", (lambda: self.text(TEXTS)) if form & 8 else self.rare(self.kept, 9)),
            ("pool_id", self.pool if form & 16 else self.rare(self.pool, 9)),
            ("device_free", self.rare(lambda: self.number(SIZES), 12)),
            ("forward_frames", self.rare(lambda: self.list(lambda: self.text(NAMES), 2), 12)),
            ("category", self.rare(lambda: Atom(choose.below(5)), 12)),
        )

    def history(self) -> Node:
        return self.dict(
            ("addr", lambda: self.number(ADDRESSES)),
            ("real_size", self.mostly(lambda: self.number(SIZES))),
            ("frames", self.mostly(self.stack)),
        )

    def block(self) -> Node:
        # In PyTorch 2.0, blocks have a history instead of an address and frames. Some of these
        # blocks have both.
        legacy = self.legacy != self.choose.rarely(12)
        address, frames = (lambda: self.number(ADDRESSES)), self.mostly(self.stack)
        return self.dict(
            ("address", self.rare(address, 6) if legacy else address),
            ("size", lambda: self.number(SIZES)),
            ("requested_size", self.mostly(lambda: self.number(SIZES), 3 if legacy else 20)),
            ("state", lambda: self.text(STATES)),
            ("frames", self.rare(self.stack, 4) if legacy else frames),
            ("history", (lambda: self.list(self.history, 2)) if legacy else None),
        )

    def segment(self) -> Node:
        # The segment's blocks and totals are unrelated to the events, as in files that contradict
        # themselves.
        return self.dict(
            ("device", self.mostly(lambda: Atom(self.choose.below(3)))),
            ("address", lambda: self.number(ADDRESSES)),
            ("total_size", lambda: self.number(SIZES)),
            ("allocated_size", self.mostly(lambda: self.number(SIZES))),
            ("active_size", self.mostly(lambda: self.number(SIZES))),
            ("requested_size", self.rare(lambda: self.number(SIZES), 4)),
            ("stream", self.mostly(lambda: self.number(STREAMS))),
            ("segment_type", self.mostly(lambda: self.text(("large", "small")))),
            ("segment_pool_id", self.rare(self.pool, 3)),
            ("is_expandable", self.rare(lambda: Atom(self.choose.chance(2)), 3)),
            ("frames", self.rare(self.stack, 3)),
            ("blocks", self.mostly(lambda: self.list(self.block, 3))),
        )

    def annotation(self) -> Node:
        return self.dict(
            ("name", lambda: self.text(NAMES)),
            ("stage", lambda: self.text(("START", "END"))),
            ("device", lambda: Atom(self.choose.below(2))),
            ("time_us", lambda: self.number(TIMES)),
        )

    def trace(self) -> Node:
        most = self.choose.pick((12, 4, 30, 12, 20, 0))
        return self.list(self.event_or_again, most, most // 2)

    def event_or_again(self) -> Node:
        if self.events and self.choose.rarely(50):
            return self.choose.pick(self.events)
        self.events.append(self.event())
        return self.events[-1]

    def settings(self) -> Node:
        found = Pairs([(self.shared("max_split_size"), Atom(-1))])
        for name in ("expandable_segments", "roundup_power2_divisions", "PYTORCH_CUDA_ALLOC_CONF"):
            found.items.append((self.shared(name), self.kept()))
        return found

    def whole(self) -> Node:
        """Return the snapshot."""
        choose = self.choose
        self.legacy = choose.chance(4)
        self.form = 31 - choose.below(32)  # which keys this file's events have
        if choose.chance(16):
            self.root = Items("list", [])
            self.root = self.list(self.segment, 3)
            return self.root
        parts: list[tuple[str, Callable[[], Node]]] = [
            ("device_traces", lambda: self.list(self.trace, 3, 1)),
            ("segments", lambda: self.list(self.segment, 3)),
        ]
        more: list[tuple[str, Callable[[], Node]]] = [
            ("allocator_settings", self.settings),
            ("external_annotations", lambda: self.list(self.annotation, 3)),
            ("external_annotations", lambda: Atom(None)),
            ("trace_alloc_overflowed", lambda: Atom(choose.chance(2))),
            ("trace_alloc_max_entries", lambda: self.plain([100, 2**63])),
            ("host_traces", lambda: self.list(lambda: self.list(self.frame, 2), 2)),
            ("host_segments", self.stack),
        ]
        if choose.chance(6):
            del parts[choose.below(2)]
        seen = {name for name, _ in parts}
        for _ in range(choose.below(4)):
            name, make = choose.pick(more)
            if name not in seen or self.wrong:
                seen.add(name)
                parts.insert(choose.below(len(parts) + 1), (name, make))
        assert isinstance(self.root, Pairs)
        for name, make in parts:
            key = self.shared(name)
            self.root.items.append((key, self.maybe(make())))
        return self.maybe(self.root) if self.choose.rarely(self.wrong * 4) else self.root


# Use these nodes only once, because each use adds rows.
ONCE = {"blocks", "history"}
CONTAINERS: tuple[Callable[[Shaper], Node], ...] = (
    *(Shaper.frame, Shaper.stack, Shaper.pool, Shaper.event, Shaper.block, Shaper.segment),
    *(Shaper.kept, Shaper.unknown, Shaper.annotation, Shaper.trace),
)
