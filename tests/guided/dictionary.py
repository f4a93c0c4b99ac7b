"""The words that libFuzzer inserts into inputs: opcodes from all protocols, and the names in the
format.

Opcodes come from pickletools, and names from the format as PyTorch writes it
(torch/csrc/cuda/memory_snapshot.cpp, torch/cuda/_memory_viz.py), not from memreplay's reader.
"""

from __future__ import annotations

import pickletools
import struct

WRITTEN = """
    segments device_traces allocator_settings external_annotations address total_size
    stream segment_type segment_pool_id allocated_size active_size requested_size
    is_expandable frames blocks size state history addr real_size filename line name
    fx_node_op fx_node_name fx_node_target fx_original_trace action time_us pool_id
    compile_context user_metadata device device_free stage trace_alloc_overflowed
    trace_alloc_max_entries memreplay memreplay_carried alloc free free_requested
    free_completed segment_alloc segment_free segment_map segment_unmap oom snapshot
    user_defined small large active_allocated active_pending_free inactive
    active_awaiting_free START END N/A PYTORCH_CUDA_ALLOC_CONF max_split_size
    garbage_collection_threshold expandable_segments pinned_num_register_threads
    release_lock_on_cudamalloc pinned_use_cuda_host_register roundup_power2_divisions
    graph_capture_record_stream_reuse
"""
NAMES = WRITTEN.split()
NUMBERS = (0, 1, 255, 256, 512, 2**21, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1)


def words() -> list[bytes]:
    """Return every word once, in a stable order."""
    found = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]
    for name in NAMES:
        text = name.encode()
        found += [
            b"\x8c" + bytes([len(text)]) + text,
            b"\x8c" + bytes([len(text)]) + text + b"\x94",
            b"X" + struct.pack("<I", len(text)) + text + b"q\x01",
            b"V" + text + b"\n",
            b'"' + text + b'"',
            b'"' + text + b'":',
        ]
    for number in NUMBERS:
        short = number.to_bytes(9, "little", signed=True)
        found += [b"\x8a\x09" + short, b"I%d\n" % number, b"L%dL\n" % number, b"%d" % number]
    found += [b"\x80" + bytes([protocol]) for protocol in range(6)]
    found += [b"\x95" + struct.pack("<Q", size) for size in (0, 1, 4, 2**40)]
    found += [b"h\x00", b"h\x01", b"h\x02", b"j\x01\x00\x00\x00", b"q\x00", b"r\x01\x00\x00\x00"]
    found += [b"}(", b"](", b"u}", b"e](", b"0N", b"a}", b"s]", b"1(", b"2a"]
    found += [
        b"null",
        b"true",
        b"false",
        b"[{",
        b"}]",
        b"},{",
        b"],",
        b"1e400",
        b"\\ud800",
        b"\\u0000",
    ]
    return list(dict.fromkeys(found))


def dictionary() -> str:
    """Write the file for `-dict`: https://llvm.org/docs/LibFuzzer.html#dictionaries."""
    lines = ("".join(f"\\x{byte:02x}" for byte in word) for word in words())
    return "".join(f'"{line}"\n' for line in lines)
