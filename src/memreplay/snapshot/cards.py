"""GPUs: the properties that PyTorch reports, the size of a CUDA context, and the sources of these
figures.

A card model's memory size varies, because the amount that the driver reserves differs between its
versions and, by a few hundred KiB, between starts. The sizes are those that current drivers (580
and later) report, if known, else the newest known sizes; `source` says which.
"""

from __future__ import annotations

from typing import NamedTuple

from memreplay.errors import UsageError

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

EXACT = "bytes"
"""Reported in bytes."""
TO_MIB = "MiB"
"""Reported in whole MiB: up to 1 MiB more."""
TO_GIB = "0.01 GiB"
"""Reported in GiB with two digits: a few MiB more or less."""
OF_ANOTHER = "another card"
"""No report found; taken from the most similar card with one."""


class Card(NamedTuple):
    """A GPU, as PyTorch sees it."""

    key: str
    """The short name that memreplay uses."""
    name: str
    """Result of torch.cuda.get_device_name()."""
    bytes: int
    """Total memory (cudaDeviceProp.totalGlobalMem)."""
    exact: str
    """Precision of `bytes`: EXACT, TO_MIB or TO_GIB."""
    major: int
    """Major part of the compute capability."""
    minor: int
    """Minor part of the compute capability."""
    sms: int
    """Number of streaming multiprocessors."""
    l2: int
    """Size of the L2 cache in bytes; 0 if unknown."""
    bus_width: int
    """Width of the memory bus in bits; 0 if unknown."""
    context_bytes: int
    """Memory that a process's CUDA context takes before any allocation."""
    context_exact: str
    """Precision of `context_bytes`: EXACT, TO_GIB or OF_ANOTHER."""
    source: str
    """Where each figure comes from."""

    @property
    def limits(self) -> Limits:
        """The limits for the card's compute capability."""
        return _LIMITS[self.major, self.minor]

    @property
    def outside(self) -> Outside:
        """The memory that the driver and libraries take when first used."""
        blas_workspace = _BLAS_WORKSPACE.get(self.major, 4 * _MIB)
        return _MEASURED._replace(
            cublas=2 * blas_workspace + 2 * _MIB,
            cusolver=2 * blas_workspace + 34 * _MIB,
            nccl=_NCCL_NVLINK if self.key in _NVLINK else _NCCL_PCIE,
        )

    @property
    def is_outside_measured(self) -> bool:
        """Whether `outside` was measured on this card, rather than estimated from another."""
        return self.key == _MEASURED_ON

    @property
    def training_bytes(self) -> int:
        """Memory outside PyTorch's allocator in a usual training program on one card."""
        outside = self.outside
        each = outside.kernels + 2 * outside.cublas + outside.cublas_more + 2 * outside.cudnn
        return self.context_bytes + each


class Outside(NamedTuple):
    """Bytes that the driver and libraries take outside PyTorch's allocator, after the context.

    The order must match `enum outside` in dryrun/gpu/gpu.h.
    """

    kernels: int
    """With the first kernel."""
    cublas: int
    """With each cuBLAS handle: PyTorch has one per thread, so training takes two."""
    cublas_more: int
    """With cuBLAS's further kernels."""
    cudnn: int
    """With each cuDNN handle, of which PyTorch also has one per thread."""
    cusolver: int
    """With the first use of cuSOLVER."""
    cufft: int
    """With the first use of cuFFT."""
    nccl: int
    """With each NCCL communicator of several ranks."""


class Limits(NamedTuple):
    """Properties that all cards with the same compute capability share."""

    shared_block_optin: int
    """Bytes of shared memory that a block can request."""
    shared_sm: int
    """Bytes of shared memory per multiprocessor."""
    threads_sm: int
    """Maximum number of threads per multiprocessor."""
    blocks_sm: int
    """Maximum number of blocks per multiprocessor."""


# CUDA C++ programming guide, "Technical Specifications per Compute Capability": 7.5 to 12.0 are
# from release 13, 6.0 and 7.0 from older ones. The column for 10.0 also applies to 10.3.
_LIMITS = {
    (6, 0): Limits(48 * _KIB, 64 * _KIB, 2048, 32),
    (7, 0): Limits(96 * _KIB, 96 * _KIB, 2048, 32),
    (7, 5): Limits(64 * _KIB, 64 * _KIB, 1024, 16),
    (8, 0): Limits(163 * _KIB, 164 * _KIB, 2048, 32),
    (8, 6): Limits(99 * _KIB, 100 * _KIB, 1536, 16),
    (8, 9): Limits(99 * _KIB, 100 * _KIB, 1536, 24),
    (9, 0): Limits(227 * _KIB, 228 * _KIB, 2048, 32),
    (10, 0): Limits(227 * _KIB, 228 * _KIB, 2048, 32),
    (10, 3): Limits(227 * _KIB, 228 * _KIB, 2048, 32),
    (12, 0): Limits(99 * _KIB, 100 * _KIB, 1536, 24),
}

# Steps of torch.cuda.mem_get_info() on an H200 (PyTorch 2.11, CUDA 13.0, cuDNN 9.19, driver
# 580.159): 526.8 MiB after the start, 528.8 after the first kernel, 594.8 after a product in fp32,
# 684.8 in bf16, 692.8 after a convolution, 790.8 after linear algebra, 798.8 after an FFT. Seven
# training programs there had 750.8 (without cuDNN) to 772.8 MiB, which is the sum for two threads,
# or up to 6 MiB more. Five others had 810 to 812 MiB on an H100 and an H200.
_MEASURED = Outside(2 * _MIB, 66 * _MIB, 90 * _MIB, 8 * _MIB, 98 * _MIB, 8 * _MIB, 0)
_MEASURED_ON = "H200"
# The size of cuBLAS's own workspace by compute capability, if not 4 MiB (cublasSetWorkspace() in
# cuBLAS's manual). A handle is assumed to take two of these and 2 MiB, which is right for the H200;
# cuSOLVER is assumed to have a cuBLAS handle. Other parts are assumed to be the same on all cards.
# This gives 47 MiB too much for the two cards whose OOM's rest is known (RTX3090, V100-32).
_BLAS_WORKSPACE = {9: 32 * _MIB, 10: 32 * _MIB, 12: 12 * _MIB}
OUTSIDE_ERROR = 64 * _MIB
"""How wrong the sum can be, as far as is known: the five others without cuDNN have 61 MiB more."""
# A communicator of more than two ranks on A100s with NVLink (NVIDIA/nccl issue 964; 544 MiB with
# two). Buffers grow with the number of channels; without NVLink, NCCL uses 2 instead of 24, so this
# part is assumed to be a twelfth. Newer cards may take twice as much.
_NCCL_NVLINK, _NCCL_PCIE = 688 * _MIB, 57 * _MIB
_NVLINK = (
    "V100-16", "V100-32", "A100-40", "A100-80", "H100", "H20", "H200", "GH200", "B200", "B300",
)  # fmt: skip

# How contexts were measured. "idle": total minus free memory, as a program sees it before its first
# allocation. "startup": the same, from vLLM's line "Free memory on device (FREE/TOTAL GiB) on
# startup", with the largest FREE found. "OOM's rest": the process's memory in PyTorch's
# out-of-memory message, minus the memory that PyTorch allocated and reserved.
CARDS = (
    Card(
        "T4", "Tesla T4", 15637086208, EXACT, 7, 5, 40, 4 * _MIB, 256,
        int(0.13 * _GIB), TO_GIB,
        "bytes: total_memory in PyTorch 2.11+cu128, driver 580.82 (Google Colab); 15843721216 to"
        " 15828320256 with drivers 450 to 570. SMs, L2, bus: deviceQuery. Context: OOM's rest.",
    ),
    Card(
        "P100", "Tesla P100-PCIE-16GB", 17059545088, EXACT, 6, 0, 56, 4 * _MIB, 4096,
        335675392, EXACT,
        "bytes and context (idle): PyTorch 2.10+cu126 (Kaggle). SMs, L2, bus: deviceQuery, XLA's"
        " target_config/specs/p100. CUDA 13 does not know it.",
    ),
    Card(
        "V100-16", "Tesla V100-SXM2-16GB", 16928342016, EXACT, 7, 0, 80, 6 * _MIB, 4096,
        324993024, EXACT,
        "bytes, SMs, L2, bus: deviceQuery, driver 550 (CUDA 12.4). Context: idle, cudaMemGetInfo."
        " CUDA 13 does not know it.",
    ),
    Card(
        "V100-32", "Tesla V100-SXM2-32GB", 34072559616, EXACT, 7, 0, 80, 6 * _MIB, 4096,
        324993024, OF_ANOTHER,
        "bytes, SMs, L2, bus: deviceQuery, driver 575 (CUDA 12.9). Context: the V100-16's; OOM's"
        " rest is 0.38 GiB. CUDA 13 does not know it.",
    ),
    Card(
        "RTX2080Ti", "NVIDIA GeForce RTX 2080 Ti", 11545280512, EXACT, 7, 5, 68, 5767168, 352,
        int(0.13 * _GIB), OF_ANOTHER,
        "bytes: total_memory in PyTorch, of 2026. SMs, L2, bus: deviceQuery. Context: the T4's.",
    ),
    Card(
        "A10", "NVIDIA A10", 23696375808, EXACT, 8, 6, 72, 6 * _MIB, 384,
        int(0.23 * _GIB), OF_ANOTHER,
        "bytes, SMs, L2, bus: deviceQuery, driver 570 (CUDA 12.8); the same total in an OOM warning"
        " of PyTorch, of 2026. Context: the A10G's.",
    ),
    Card(
        "A10G", "NVIDIA A10G", 22587 * _MIB, TO_MIB, 8, 6, 80, 6 * _MIB, 384,
        int(0.23 * _GIB), TO_GIB,
        "bytes, SMs, L2: get_device_properties in PyTorch 2.15 (nightly)+cu130; 22723 MiB in older"
        " reports. Bus: deviceQuery of the A10, of the same chip. Context: startup (21.83/22.06).",
    ),
    Card(
        "A6000", "NVIDIA RTX A6000", 51041271808, EXACT, 8, 6, 84, 6 * _MIB, 384,
        int(0.23 * _GIB), OF_ANOTHER,
        "bytes: total_memory in PyTorch, of 2026; 51160023040 with driver 565. SMs, L2, bus:"
        " deviceQuery. Context: the A10G's.",
    ),
    Card(
        "RTX3090", "NVIDIA GeForce RTX 3090", 25295519744, TO_MIB, 8, 6, 82, 6 * _MIB, 384,
        int(0.23 * _GIB), OF_ANOTHER,
        "bytes: 24123 MiB in llama.cpp, of 2026; as many in an OOM warning of PyTorch whose card is"
        " not named. SMs, L2, bus: deviceQuery. Context: the A10G's; OOM's rest is"
        " 0.31 GiB.",
    ),
    Card(
        "A100-40", "NVIDIA A100-SXM4-40GB", 42405855232, EXACT, 8, 0, 108, 40 * _MIB, 5120,
        int(0.41 * _GIB), TO_GIB,
        "bytes: total_memory in PyTorch, of 2026, and the PCIe card's; 42298834944 with driver 535."
        " SMs, L2, bus: deviceQuery. Context: startup (39.08/39.49).",
    ),
    Card(
        "A100-40-PCIe", "NVIDIA A100-PCIE-40GB", 42405855232, EXACT, 8, 0, 108, 40 * _MIB, 5120,
        int(0.41 * _GIB), OF_ANOTHER,
        "bytes, SMs, L2, bus: deviceQuery, driver 580 (CUDA 13.0). Context: the A100-40's.",
    ),
    Card(
        "A100-80", "NVIDIA A100-SXM4-80GB", 85094825984, EXACT, 8, 0, 108, 40 * _MIB, 5120,
        int(0.41 * _GIB), TO_GIB,
        "bytes: total_memory in PyTorch 2.7+cu126 and other reports of 2026; 85100068864 with"
        " driver 555, 84987740160 with 535. SMs, L2, bus: deviceQuery. Context: startup"
        " (78.84/79.25).",
    ),
    Card(
        "A100-80-PCIe", "NVIDIA A100 80GB PCIe", 85094825984, EXACT, 8, 0, 108, 40 * _MIB, 5120,
        int(0.41 * _GIB), OF_ANOTHER,
        "bytes: total_memory in PyTorch, driver 595.91; 85097971712 before the machine was started"
        " again. SMs, L2, bus: deviceQuery. Context: the A100-80's.",
    ),
    Card(
        "L4", "NVIDIA L4", 23659151360, EXACT, 8, 9, 58, 48 * _MIB, 192,
        int(0.19 * _GIB), TO_GIB,
        "bytes, SMs: PyTorch 2.11+cu130, driver 580.82. L2, bus: deviceQuery. Context: startup"
        " (21.84/22.03).",
    ),
    Card(
        "L40", "NVIDIA L40", 47676129280, EXACT, 8, 9, 142, 96 * _MIB, 384,
        int(0.49 * _GIB), OF_ANOTHER,
        "bytes: totalGlobalMem. SMs: a report with driver 580. L2, bus: the L40S's, of the same"
        " chip (AD102). Context: the L40S's.",
    ),
    Card(
        "L40S", "NVIDIA L40S", 47677177856, EXACT, 8, 9, 142, 96 * _MIB, 384,
        int(0.49 * _GIB), TO_GIB,
        "bytes: total_memory in PyTorch, of 2026; 47576711168 with driver 550. SMs, L2, bus:"
        " deviceQuery. Context: startup (43.9/44.39).",
    ),
    Card(
        "RTX4090", "NVIDIA GeForce RTX 4090", 25250627584, EXACT, 8, 9, 128, 72 * _MIB, 384,
        int(0.46 * _GIB), TO_GIB,
        "bytes, SMs, L2, bus: deviceQuery, driver 580 (CUDA 13.0); Linux. Context: OOM's rest.",
    ),
    Card(
        "H100", "NVIDIA H100 80GB HBM3", 85017755648, EXACT, 9, 0, 132, 50 * _MIB, 5120,
        552402944, EXACT,
        "bytes, SMs, L2, bus: deviceQuery, driver 580 (CUDA 13.0), in a virtual machine; 79.18"
        " GiB in several OOM messages; 85017493504 in PyTorch 2.11, driver 580.159 (CUDA 13.0);"
        " 85028896768 with driver 570, 85045477376 with 565. Context: idle, that PyTorch.",
    ),
    Card(
        "H100-PCIe", "NVIDIA H100 PCIe", 84942979072, EXACT, 9, 0, 114, 50 * _MIB, 5120,
        552402944, OF_ANOTHER,
        "bytes: XLA's target_config/specs/h100_pcie and 81008 MiB in PyTorch, both of 2023: newer"
        " drivers leave some 70 MiB more of an H100. SMs, L2, bus: the same and reports of its"
        " properties. Context: the H100's.",
    ),
    Card(
        "H20", "NVIDIA H20", 97285 * _MIB, TO_MIB, 9, 0, 78, 0, 6144,
        552402944, OF_ANOTHER,
        "bytes, SMs: get_device_properties in PyTorch; 95.00 GiB in an OOM message of 2026. Bus:"
        " cudaGetDeviceProperties. L2: not found. Context: the H100's.",
    ),
    Card(
        "H200", "NVIDIA H200", 150109880320, EXACT, 9, 0, 132, 60 * _MIB, 6016,
        552402944, EXACT,
        "bytes, SMs, L2, bus: PyTorch 2.11, driver 580.159 (CUDA 13.0); 150110011392 in other"
        " reports of 2026. Context: idle, CuPy and that PyTorch.",
    ),
    Card(
        "GH200", "NVIDIA GH200 480GB", 101468602368, EXACT, 9, 0, 132, 60 * _MIB, 6144,
        552402944, OF_ANOTHER,
        "bytes: PyTorch 2.7, driver 580, and deviceQuery, driver 575 (GH200 120GB); 102005473280"
        " with driver 535. SMs, L2, bus: deviceQuery. Context: the H200's.",
    ),
    Card(
        "B200", "NVIDIA B200", 191502876672, EXACT, 10, 0, 148, 132644864, 7680,
        int(0.70 * _GIB), TO_GIB,
        "bytes: PyTorch 2.9, driver 580.178. SMs, L2: XLA's target_config/specs/b200, which has"
        " 191514411008 bytes. Bus: as newer drivers say it (8192 before). Context: OOM's rest, one"
        " operation.",
    ),
    Card(
        "B300", "NVIDIA B300 SXM6 AC", int(267.69 * _GIB), TO_GIB, 10, 3, 148, 132644864, 0,
        int(0.61 * _GIB), TO_GIB,
        "bytes: 267.69 GiB in OOM messages and in vLLM. SMs: several reports, driver 610. L2: the"
        " B200's, 126 MB in a report. Bus: not found. Context: startup (267.08/267.69).",
    ),
    Card(
        "RTX5090", "NVIDIA GeForce RTX 5090", 33668857856, EXACT, 12, 0, 170, 96 * _MIB, 512,
        531890176, EXACT,
        "bytes, SMs, L2, bus: deviceQuery, driver 580 (CUDA 13.0); 33660534784 on another machine,"
        " 33677180928 with driver 570. Context: idle, PyTorch's OOM warning of a first allocation.",
    ),
    Card(
        "RTXPRO6000", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 101971460096,
        EXACT, 12, 0, 188, 128 * _MIB, 512,
        int(0.56 * _GIB), TO_GIB,
        "bytes: total memory in a report of 2026; 94.97 GiB is also the Server Edition's. SMs:"
        " several reports. L2, bus: NVIDIA's whitepaper of the RTX Blackwell architecture (GB202)."
        " Context: startup (94.41/94.97).",
    ),
)  # fmt: skip

# maximum difference in memory, as a share, for a card to count as one in the table
_NEAR = 0.1

_BRANDS = ("nvidia", "tesla", "geforce")


def _plain(text: str) -> str:
    """Normalize a name: ignore case, spaces, dashes, and leading brand names."""
    text = "".join(char for char in text.lower() if char not in " -_")
    for brand in _BRANDS:
        text = text.removeprefix(brand)
    return text


def find(text: str) -> Card:
    """Return a card by key or name. Raises UsageError with suggestions."""
    asked = _plain(text)
    for card in CARDS:
        if asked in (_plain(card.key), _plain(card.name)):
            return card
    from difflib import get_close_matches  # imported late, because it's only needed for errors

    # To difflib, "A100" is more similar to A10 than to A100-80, so try prefixes first.
    keys = {_plain(card.key): card.key for card in CARDS}
    near = [key for plain, key in keys.items() if asked and plain.startswith(asked)]
    near += [keys[plain] for plain in get_close_matches(asked, keys, 3, 0.7)]
    if near:
        words = f"did you mean {' or '.join(dict.fromkeys(near))}?"
    else:
        words = f"known cards: {', '.join(card.key for card in CARDS)}"
    raise UsageError(f"unknown card {text!r}: {words}")


def context_bytes(total_bytes: int, name: str | None = None, named_bytes: int | None = None) -> int:
    """Estimate how much memory a CUDA context takes on a card with `total_bytes`.

    Uses the table above. A recording may have noted a card called `name` with `named_bytes` of
    memory. If `total_bytes` is that size, the figure of `name` is used, otherwise the figure of the
    card nearest in size. If no card is near in size (a dry run may use any size), the figure of
    `name` is used.
    """
    named = next((one for one in CARDS if one.name == name), None)
    if named is not None and total_bytes == named_bytes:
        return named.context_bytes
    nearest = min(CARDS, key=lambda one: abs(one.bytes - total_bytes))
    if named is None or abs(nearest.bytes - total_bytes) <= total_bytes * _NEAR:
        return nearest.context_bytes
    return named.context_bytes


def usable_bytes(total_bytes: int, context: int) -> int:
    """Return how much of a card's memory a program can use: the total minus the CUDA context."""
    return max(total_bytes - context, 0)
