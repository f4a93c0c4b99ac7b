"""Files that aren't snapshots, or not plain ones: unsafe, truncated, pages, other formats."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator

from tests.pickle_ops import Ops

# --------------------------------------------------------------------------------------------------
# Snapshots embedded in other files
# --------------------------------------------------------------------------------------------------


def viewer_page(*snapshots: bytes) -> bytes:
    """Return the page that torch.cuda._memory_viz trace_plot writes for one or more pickles.

    Like PyTorch's `_format_viz`, it pads each pickle with 1 to 3 zeros.
    """
    files = []
    for data in snapshots:
        padded = data + b"\0" * (3 - len(data) % 3)
        files.append({"name": "snapshot.pickle", "base64": base64.b64encode(padded).decode()})
    return f"""
<!DOCTYPE html>
<html>
<head>
</head>
<body>
<script type="module">
import {{add_local_files}} from "https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/MemoryViz.js"
const local_files = {json.dumps(files)}
add_local_files(local_files, 'Active Memory Timeline')
</script>
</body>
""".encode()


# --------------------------------------------------------------------------------------------------
# Broken pickles, and other formats
# --------------------------------------------------------------------------------------------------

HARMLESS = "true"  # the command that a reader must never run (it's harmless)


def truncations(data: bytes, step: int = 1) -> Iterator[bytes]:
    """Yield every proper prefix of `data`, shortest first (every `step`-th)."""
    for length in range(0, len(data), step):
        yield data[:length]


def calls_function(protocol: int = 2, inside: bool = False) -> bytes:
    """Return a pickle that calls os.system when unpickled: through GLOBAL in protocol 2, and
    STACK_GLOBAL in protocol 4.

    `inside` hides the call in a snapshot, as the value of an unknown key.
    """
    ops = Ops().proto(protocol)
    if inside:
        ops.empty_dict().mark().binunicode("segments").empty_list()
        ops.binunicode("device_traces").empty_list().binunicode("surprise")
    if protocol < 4:
        ops.op("GLOBAL", b"os\nsystem\n")
    else:
        ops.string("os").string("system").op("STACK_GLOBAL")
    ops.binunicode(HARMLESS).op("TUPLE1").op("REDUCE")
    if inside:
        ops.setitems()
    return bytes(ops.stop())


def unsafe_pickles() -> dict[str, bytes]:
    """Return one pickle for each opcode that imports, calls or looks something up, by opcode
    name.
    """
    os_system = b"os\nsystem\n"

    def start() -> Ops:
        return Ops().proto(2).op("GLOBAL", os_system)

    made = {
        "GLOBAL": start(),
        "STACK_GLOBAL": Ops().proto(4).string("os").string("system").op("STACK_GLOBAL"),
        "REDUCE": start().binunicode(HARMLESS).op("TUPLE1").op("REDUCE"),
        "NEWOBJ": start().op("EMPTY_TUPLE").op("NEWOBJ"),
        "NEWOBJ_EX": start().op("EMPTY_TUPLE").empty_dict().op("NEWOBJ_EX"),
        "BUILD": Ops().proto(2).empty_dict().empty_dict().op("BUILD"),
        "INST": Ops().mark().binunicode(HARMLESS).op("INST", os_system),
        "OBJ": Ops().mark().op("GLOBAL", os_system).binunicode(HARMLESS).op("OBJ"),
        "EXT1": Ops().proto(2).op("EXT1", b"\x01"),
        "EXT2": Ops().proto(2).op("EXT2", b"\x01\x01"),
        "EXT4": Ops().proto(2).op("EXT4", b"\x01\x01\x01\x01"),
        "PERSID": Ops().op("PERSID", b"elsewhere\n"),
        "BINPERSID": Ops().proto(2).binunicode("elsewhere").op("BINPERSID"),
    }
    return {name: bytes(ops.stop()) for name, ops in made.items()}


def not_a_snapshot() -> dict[str, bytes]:
    """Return bytes that aren't snapshots, by name: valid pickles of other things, and other
    formats.
    """
    return {
        "empty": b"",
        "int": pickle.dumps(7, 4),
        "none": pickle.dumps(None, 4),
        "unrelated dict": pickle.dumps({"weights": [1.0, 2.0], "epoch": 3}, 4),
        "list of ints": pickle.dumps([1, 2, 3], 4),
        "png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        "zip": b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(20),  # torch.save since 1.6
        "legacy torch.save": legacy_torch_save(),
        "text": b"step 1: loss 2.5\nstep 2: loss 2.4\n",
    }


def legacy_torch_save() -> bytes:
    """Return the beginning of a torch.save file before 1.6: three pickles, the first a 10-byte
    magic number.
    """
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4}}
    parts = (0x1950A86A20F9469CFC6C, 1001, system)
    return b"".join(pickle.dumps(part, 2) for part in parts)
