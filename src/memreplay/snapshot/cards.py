"""Cards: what PyTorch reads of each, what CUDA takes of it, and where that is known from.

One card has several sizes: the driver keeps another part of its memory for itself from version to
version, and a few hundred KiB from start to start. Here is what current drivers (580 and later)
leave, where such a report was found, and the newest else; `source` says which.
"""

from __future__ import annotations

from typing import NamedTuple

from memreplay.errors import UsageError

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

EXACT = "bytes"
"""A figure was reported in bytes."""
TO_MIB = "MiB"
"""It was reported in whole MiB: up to one more."""
TO_GIB = "0.01 GiB"
"""It was reported in GiB with two digits: some MiB more or less."""
OF_ANOTHER = "another card"
"""None was found: it is that of the nearest card with a report."""


class Card(NamedTuple):
    """A card, as PyTorch sees it."""

    key: str
    """What it is called here."""
    name: str
    """What torch.cuda.get_device_name() calls it."""
    bytes: int
    """All memory that a program is offered (cudaDeviceProp.totalGlobalMem)."""
    exact: str
    """How well that is known: EXACT, TO_MIB or TO_GIB."""
    major: int
    """Compute capability: before the point."""
    minor: int
    """After the point."""
    sms: int
    """Streaming multiprocessors."""
    l2: int
    """Bytes of the L2 cache; 0 where no report was found."""
    bus_width: int
    """Bits of the memory bus; 0 where no report was found."""
    context_bytes: int
    """What a process's CUDA context takes before it allocates anything."""
    context_exact: str
    """How well that is known: EXACT, TO_GIB or OF_ANOTHER."""
    source: str
    """Where each figure is from."""

    @property
    def limits(self) -> Limits:
        """What its compute capability decides."""
        return _LIMITS[self.major, self.minor]


class Limits(NamedTuple):
    """What all cards of a compute capability have in common."""

    shared_block_optin: int
    """Bytes of shared memory that a block can ask for."""
    shared_sm: int
    """Bytes of shared memory of a multiprocessor."""
    threads_sm: int
    """Threads that a multiprocessor holds at once."""
    blocks_sm: int
    """Blocks that a multiprocessor holds at once."""


# CUDA C++ programming guide, "Technical Specifications per Compute Capability": 7.5 to 12.0 of
# release 13, 6.0 and 7.0 of older ones. Its column 10.0 is also that of 10.3.
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

# Contexts: "idle" is total less free memory, as a program saw it before its first allocation.
# "startup" is that of vLLM's line "Free memory on device (FREE/TOTAL GiB) on startup", the largest
# FREE that was found. "OOM's rest" is what PyTorch's message of an out-of-memory error leaves over:
# what the process holds, less what PyTorch has allocated and what it has reserved.
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

_NEAR = 0.1  # how much of its memory a card may be larger or smaller than one of the table

_BRANDS = ("nvidia", "tesla", "geforce")


def _plain(text: str) -> str:
    """A name without case, spaces, dashes and the brands that it begins with."""
    text = "".join(char for char in text.lower() if char not in " -_")
    for brand in _BRANDS:
        text = text.removeprefix(brand)
    return text


def find(text: str) -> Card:
    """The card of a key or a name. Raises UsageError, with what comes near, where there is none."""
    asked = _plain(text)
    for card in CARDS:
        if asked in (_plain(card.key), _plain(card.name)):
            return card
    from difflib import get_close_matches  # late: for a mistake alone

    # "A100" is nearer to the A10 than to the A100-80: what begins so comes first.
    keys = {_plain(card.key): card.key for card in CARDS}
    near = [key for plain, key in keys.items() if asked and plain.startswith(asked)]
    near += [keys[plain] for plain in get_close_matches(asked, keys, 3, 0.7)]
    if near:
        words = f"did you mean {' or '.join(dict.fromkeys(near))}?"
    else:
        words = f"known are {', '.join(card.key for card in CARDS)}"
    raise UsageError(f"no card is known as {text!r}: {words}")


def context_bytes(total_bytes: int, name: str | None = None, named_bytes: int | None = None) -> int:
    """Return what a CUDA context takes of a card with `total_bytes`, before a program has anything.

    An estimate, by the table above: of the card called `name`, which a recording noted with
    `named_bytes`, if it is that one; else of the card nearest in size; if none is near (a dry run
    may give a card any size), again of the card called `name`.
    """
    named = next((one for one in CARDS if one.name == name), None)
    if named is not None and total_bytes == named_bytes:
        return named.context_bytes
    nearest = min(CARDS, key=lambda one: abs(one.bytes - total_bytes))
    if named is None or abs(nearest.bytes - total_bytes) <= total_bytes * _NEAR:
        return nearest.context_bytes
    return named.context_bytes


def usable_bytes(total_bytes: int, context: int) -> int:
    """Return what a card has for a program: its memory less the CUDA context."""
    return max(total_bytes - context, 0)
