"""Differences between the caching allocators of PyTorch's backends.

All of them are copies of CUDA's allocator and share the rules in engine/replay/sizes.pxd
(docs/allocator.md). Block sizes are multiples of 512 bytes. Requests of up to 1 MiB use small
segments of 2 MiB, and those below 10 MiB large segments of 20 MiB. Each larger request gets its own
segment, in steps of 2 MiB.

ROCm compiles CUDA's source and reads the same variable. torch_npu's allocator is in
torch_npu/csrc/core/npu/NPUCachingAllocator.cpp. In 2.1 to 2.8, `round_size` adds 32 bytes, and
`malloc` aligns blocks of at least 2 MiB in expandable segments to 16 KiB (`kAlignRoundLarge`). From
2.11 on, it doesn't add the 32 bytes on Ascend 910_95 and newer chips.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Backend(Struct, frozen=True):
    """One backend's allocator."""

    name: str
    variable: str
    """The environment variable that has the allocator's settings."""
    module: str
    """The backend's module, such as `torch.cuda` or `torch.npu`."""
    written_by: str | None = None
    """The package that writes the backend's snapshots, if it isn't PyTorch itself."""
    code: str | None = None
    """The part of a source file's path that identifies the backend in stacks."""
    pad_bytes: int = 0
    """Number of bytes that are added to each request before rounding."""
    align_bytes: int = 0
    """Alignment for large blocks in expandable segments; 0 means none."""
    wording: tuple[tuple[str, str], ...] = ()
    """Parts of hints that are different for this backend, and what to write instead."""

    @property
    def is_cuda(self) -> bool:
        """Whether it's PyTorch's allocator for CUDA, of any version."""
        return self.module == CUDA.module

    @property
    def small_limit(self) -> int:
        """The largest request, in bytes, that uses a small segment."""
        return (1 << 20) - self.pad_bytes


CUDA = Backend("CUDA", variable="PYTORCH_CUDA_ALLOC_CONF", module="torch.cuda")
_RECORD, _RECORD_ALL = (
    "_record_memory_history(",
    "_record_memory_history(True, trace_alloc_max_entries=100000, trace_alloc_record_context=True)",
)
CUDA_2_0 = replace(
    CUDA,
    name="CUDA-2.0",
    # Its function to record is _record_memory_history(enabled, record_context=True,
    # trace_alloc_max_entries=1, trace_alloc_record_context=False, ...).
    wording=(
        (
            f'{_RECORD}max_entries=100000): enabled="state" and enabled=True keep',
            f"{_RECORD_ALL}: by default, PyTorch 2.0 keeps",
        ),
        (f"{_RECORD}max_entries=...)", f"{_RECORD}True, trace_alloc_max_entries=...)"),
        ("raise max_entries", "raise trace_alloc_max_entries"),
        (f"{_RECORD}enabled=None)", f"{_RECORD}False)"),
        (f"{_RECORD})", _RECORD_ALL),
        (f'{_RECORD}stacks="all")', _RECORD_ALL),
    ),
)
"""PyTorch 2.0, which has other arguments to record."""
XPU = Backend("XPU", variable="PYTORCH_XPU_ALLOC_CONF", module="torch.xpu", code="/torch/xpu/")
NPU = Backend(
    "NPU",
    variable="PYTORCH_NPU_ALLOC_CONF",
    module="torch.npu",
    written_by="torch_npu (Ascend)",
    code="/torch_npu/",
    pad_bytes=32,
    align_bytes=16 << 10,
)
NPU_UNPADDED = replace(NPU, name="NPU-unpadded", pad_bytes=0)
"""Newer NPU chips."""

BACKENDS = {one.name: one for one in (CUDA, CUDA_2_0, XPU, NPU, NPU_UNPADDED)}


def for_backend(text: str, name: str) -> str:
    """In a text about CUDA, replace the names of modules and variables, and calls, with those of
    another backend.
    """
    backend = BACKENDS[name]
    for part, instead in backend.wording:
        text = text.replace(part, instead)
    return text.replace(f"{CUDA.module}.", f"{backend.module}.").replace(
        CUDA.variable, backend.variable
    )


VARIABLES = (CUDA.variable, "PYTORCH_ALLOC_CONF", XPU.variable, NPU.variable)
"""Environment variables with settings; also keys of a snapshot's `allocator_settings`."""


class Evidence(Struct, frozen=True):
    """Evidence about which backend wrote a file."""

    settings: frozenset[str]
    """The names in `allocator_settings`."""
    npu_actions: bool
    """Whether the file has events that only torch_npu records."""
    code: frozenset[str]
    """The `code` of each backend that appears in the file's stacks."""
    plain: int
    """Number of final blocks whose size can only result from rounding the request."""
    padded: int
    """Number of final blocks whose size can only result from adding 32 bytes to the request, then
    rounding.
    """
    old: bool = False
    """Whether PyTorch 2.0 wrote the file."""
    noted: str | None = None
    """The backend's name in a file written by memreplay (`BACKENDS`)."""


def likely(found: Evidence) -> tuple[Backend, ...]:
    """Return the backends that may have written the file.

    If there are several, the trace contradicts all but one of them.
    """
    if found.noted in BACKENDS:
        return (BACKENDS[found.noted],)
    is_npu = found.npu_actions or NPU.variable in found.settings or NPU.code in found.code
    if is_npu:
        return NPU, NPU_UNPADDED
    if XPU.variable in found.settings or XPU.code in found.code:
        return (XPU,)
    cuda = CUDA_2_0 if found.old else CUDA
    if found.settings:
        return (cuda,)
    # torch_npu writes no settings. Without recorded stacks, there are no source files that could
    # identify the backend.
    if found.padded == found.plain:
        return cuda, NPU
    return (NPU,) if found.padded > found.plain else (cuda,)
