"""What the caching allocators of PyTorch's backends do differently, one row each.

All have copied CUDA's, and share what engine/replay/sizes.pxd says: blocks are multiples of 512
bytes, requests up to 1 MiB come from small segments of 2 MiB, those below 10 MiB from large ones of
20 MiB, larger ones have segments of their own in steps of 2 MiB; docs/allocator.md has the rules.
ROCm's is CUDA's own source, and reads the same variable. torch_npu's is
torch_npu/csrc/core/npu/NPUCachingAllocator.cpp, as of 2.1 to 2.8: `round_size` adds 32 bytes, and
`malloc` moves blocks of 2 MiB and more in expandable segments to a multiple of 16 KiB
(`kAlignRoundLarge`). From 2.11 on, chips from Ascend 910_95 on go without the 32 bytes.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Backend(Struct, frozen=True):
    """One backend's allocator, where it isn't CUDA's."""

    name: str
    variable: str
    """The environment variable that its settings are read from."""
    module: str
    """What torch calls it: `torch.cuda`, `torch.npu`."""
    written_by: str | None = None
    """Who writes its snapshots, where that isn't PyTorch itself."""
    code: str | None = None
    """Part of the names of its own source files, by which stacks tell it."""
    pad_bytes: int = 0
    """What each request has more before it is rounded."""
    align_bytes: int = 0
    """What large blocks of expandable segments begin at a multiple of; 0 for anywhere."""

    @property
    def small_limit(self) -> int:
        """The largest request, in bytes, that comes from a small segment."""
        return (1 << 20) - self.pad_bytes


CUDA = Backend("CUDA", variable="PYTORCH_CUDA_ALLOC_CONF", module="torch.cuda")
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
"""Of newer chips."""

BACKENDS = {one.name: one for one in (CUDA, XPU, NPU, NPU_UNPADDED)}


def spoken(text: str, name: str) -> str:
    """What is said of CUDA's allocator as it is said of that of another backend (`BACKENDS`): its
    module of torch, and its environment variable."""
    backend = BACKENDS[name]
    return text.replace(f"{CUDA.module}.", f"{backend.module}.").replace(
        CUDA.variable, backend.variable
    )


VARIABLES = (CUDA.variable, "PYTORCH_ALLOC_CONF", XPU.variable, NPU.variable)
"""Where settings may stand, as keys of a snapshot's `allocator_settings`, too."""


class Evidence(Struct, frozen=True):
    """What a file tells of its backend."""

    settings: frozenset[str]
    """The names in `allocator_settings`."""
    npu_actions: bool
    """Whether it has events that torch_npu alone records."""
    code: frozenset[str]
    """The backends' `code` that its stacks name."""
    plain: int
    """Final blocks whose size is their request rounded, and not their request and 32 bytes."""
    padded: int
    """Final blocks that are the other way round."""
    noted: str | None = None
    """The backend's name in a file that memreplay wrote (`BACKENDS`)."""


def likely(found: Evidence) -> tuple[Backend, ...]:
    """The backends that may have written the file. Where there are several, the trace tells: it
    contradicts all but one."""
    if found.noted in BACKENDS:
        return (BACKENDS[found.noted],)
    is_npu = found.npu_actions or NPU.variable in found.settings or NPU.code in found.code
    if is_npu:
        return NPU, NPU_UNPADDED
    if XPU.variable in found.settings or XPU.code in found.code:
        return (XPU,)
    if found.settings:
        return (CUDA,)
    # torch_npu writes no settings, and a recording without stacks names no code.
    if found.padded == found.plain:
        return CUDA, NPU
    return (NPU,) if found.padded > found.plain else (CUDA,)
