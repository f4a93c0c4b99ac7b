"""Turn the native status of a failed read into an exception with a byte offset and a hint."""

from __future__ import annotations

from memreplay.errors import (
    LimitError,
    MemreplayError,
    SnapshotError,
    TruncatedError,
    UnsafePickleError,
)

# Codes from engine/base/status.pxd.
(
    ERR_MEMORY,
    ERR_TRUNCATED,
    ERR_UNSAFE,
    ERR_OPCODE,
    ERR_STACK,
    ERR_MEMO,
    ERR_TYPE,
    ERR_SHAPE,
    ERR_NUMBER,
    ERR_LIMIT,
    ERR_TEXT,
    ERR_JSON,
) = range(3, 15)

# Names of the kinds (engine/read/value.pxd) that a pickle's top-level value can have.
TOP_KINDS = {
    2: "None",
    3: "a bool",
    4: "a bool",
    5: "a number",
    6: "a number",
    7: "a large number",
    8: "a number",
    9: "bytes, a tuple or a set",
    10: "a string",
    11: "a pair of numbers",
}

# Limits that can be set with memreplay.Limits.
LIMITS = {
    "nesting_depth",
    "string_bytes",
    "stack_values",
    "memo_entries",
    "kept_values",
    "rows",
    "devices",
}
# Maximum number of rows of one kind in the tables, whatever the limit (MAX_ROWS in
# engine/read/tables.pxd).
MAX_ROWS = 1 << 27

_LONGEST_NAME = 40  # maximum length of a key in an error message, in characters
# Packages whose objects are often pickled by accident, so they don't suggest an attack.
USUAL = {"collections", "datetime", "decimal", "numpy", "pathlib", "torch"}

OWN_COPY = "PyTorch doesn't write this; dump it again, or give each part its own copy"
ONLY_KEY = "unknown data with only a key of the snapshot's own"  # opening.pxd uses the same wording
SINGLE_KEY = (
    "under a key of your own, a dict whose only key is one like 'segments' must come after the"
    " snapshot's own keys, or have a second key; and don't put the snapshot's own lists there"
)
RECORD = "record one with torch.cuda.memory._dump_snapshot(path)"
RESAVE = "write it again with pickle.dump(snapshot, file, protocol=4)"
DAMAGED = "the file is damaged, or not a snapshot"
PLAIN = (
    "nothing was executed; a snapshot is plain data: if you made this file, write dicts, lists,"
    " numbers and strings instead"
)
# Older protocols lack opcodes for bytearrays and sets, so they write them as these calls. Their
# calls for bytes objects are supported.
WRITTEN_AS_CALLS = {
    f"{module}.{name}"
    for module in ("__builtin__", "builtins")
    for name in ("bytes", "bytearray", "set", "frozenset")
}
NEWER = (
    "nothing was executed; older protocols have sets only as calls: if you made this"
    " file, write it with protocol 4 and without bytearrays"
)
STRANGE = (
    "nothing was executed; a memory snapshot never does this: do not unpickle this file, and ask"
    " for one that torch.cuda.memory._dump_snapshot(path) wrote"
)


def _unsafe_hint(detail: str) -> str:
    if detail in WRITTEN_AS_CALLS:
        return NEWER
    return PLAIN if detail.partition(".")[0] in USUAL else STRANGE


def opcode_name(code: int) -> str | None:
    """Return the pickletools name of an opcode byte, or None if it isn't an opcode."""
    import pickletools

    try:
        # typeshed lacks code2op, but pickletools has always had it
        name: str = vars(pickletools)["code2op"][chr(code)].name
    except KeyError:
        return None
    return name


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _cut_hint(events: int, segments: int) -> str:
    if not events and not segments:
        return "the dump was cut off too early to tell anything, even with --salvage: dump again"
    return f"the dump was cut off; {_salvaging(events, segments)}"


def _salvaging(events: int, segments: int) -> str:
    whole = _counted(events, "event") if events else _counted(segments, "segment") + ", no event"
    return f"read the intact part ({whole}) with --salvage"


def cut_stream(cut: TruncatedError, events: int, segments: int) -> TruncatedError:
    """Add the number of complete rows to a truncated compressed stream's error, as a hint."""
    if events or segments:
        cut.hint = (
            f"the file was cut off: copy or write it again, or {_salvaging(events, segments)}"
        )
    return cut


def several_snapshots(n: int, names: list[str | None]) -> SnapshotError:
    """Return the error for a file that has several snapshots if the user hasn't chosen one.

    `names` are the keys of the first few snapshots.
    """
    told = [name and name[:_LONGEST_NAME] for name in names]
    shown = ""
    if any(told):
        listed = (f"{i} {name!r}" if name else f"{i}" for i, name in enumerate(told, 1))
        shown = f": {', '.join(listed)}{', …' if n > len(told) else ''}"
    return SnapshotError(
        f"{n} snapshots in one file{shown}",
        hint=f"choose one: --pick 1, …, --pick {n}",
    )


def no_such_snapshot(pick: int, n: int) -> SnapshotError:
    """Return the error for a `pick` that matches no snapshot."""
    there = "1 snapshot" if n == 1 else f"{n} snapshots"
    return SnapshotError(
        f"the file has no snapshot {pick}: it has {there}",
        hint="leave out --pick" if n == 1 else f"choose one: --pick 1, …, --pick {n}",
    )


def _limit_hint(name: str, allowed: int) -> str:
    if name == "rows" and allowed >= MAX_ROWS:
        return "no more fit in one table; record fewer (max_entries)"
    if name in LIMITS:
        return f"raise it with --limit {name}=N if the file is known to be good"
    return DAMAGED


def diagnose(
    code: int,
    offset: int,
    opcode: int,
    a: int,
    b: int,
    detail: str,
    events: int = 0,
    segments: int = 0,
) -> MemreplayError | MemoryError:
    """Return the exception for a status.

    The meaning of `a`, `b` and `detail` depends on the code: see status.pxd. `events` and
    `segments` are the numbers of complete events and segments.
    """
    name = opcode_name(opcode)
    if code == ERR_MEMORY:
        return MemoryError(f"no memory left for {detail or 'the snapshot'}")
    if code == ERR_TRUNCATED:
        return TruncatedError(
            f"truncated {detail or 'pickle'}: need {a} byte{'s' * (a != 1)}, {b} left",
            offset=offset,
            opcode=name if b else None,
            hint=_cut_hint(events, segments),
        )
    if code == ERR_UNSAFE:
        return UnsafePickleError(
            f"the pickle asks to load or call {detail}"
            if detail
            else "the pickle asks to load or call code",
            offset=offset,
            opcode=name,
            hint=_unsafe_hint(detail),
        )
    if code == ERR_OPCODE:
        if detail == "protocol":
            return SnapshotError(
                f"unknown pickle protocol {a}", offset=offset, opcode=name, hint=RESAVE
            )
        if name is None:
            return SnapshotError(
                f"byte 0x{opcode:02x} is not a pickle opcode", offset=offset, hint=DAMAGED
            )
        return SnapshotError(
            "snapshots don't use this opcode", offset=offset, opcode=name, hint=RESAVE
        )
    if code in (ERR_STACK, ERR_TEXT):
        return SnapshotError(f"broken pickle: {detail}", offset=offset, opcode=name, hint=DAMAGED)
    if code == ERR_JSON:
        return SnapshotError(f"broken JSON: {detail}", offset=offset, hint=DAMAGED)
    if code == ERR_MEMO:
        return SnapshotError(
            f"broken pickle: memo entry {a} was never stored",
            offset=offset,
            opcode=name,
            hint=DAMAGED,
        )
    if code == ERR_NUMBER:
        return SnapshotError(
            f"a number that does not fit in {detail!r}", offset=offset, opcode=name, hint=DAMAGED
        )
    if code == ERR_LIMIT:
        return LimitError(
            f"{detail} is {a}, over the limit of {b}",
            offset=offset,
            opcode=name,
            hint=_limit_hint(detail.partition(" ")[0], b),
        )
    if detail == "top":
        if a == 7:
            return SnapshotError(
                "not a memory snapshot, but a file written by an old torch.save",
                offset=offset,
                hint=RECORD,
            )
        what = TOP_KINDS.get(a, "something else")
        return SnapshotError(
            f"not a memory snapshot: it contains {what}", offset=offset, hint=RECORD
        )
    if code == ERR_TYPE:
        return SnapshotError(
            f"not a memory snapshot: {detail!r} has a value of the wrong type",
            offset=offset,
            opcode=name,
            hint=RECORD,
        )
    return SnapshotError(
        f"not built like a memory snapshot: {detail}",
        offset=offset,
        opcode=name,
        hint=SINGLE_KEY if detail == ONLY_KEY else OWN_COPY,
    )
