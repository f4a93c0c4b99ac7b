"""The libraries that stand for NVIDIA's, laid out for one torch.

PyTorch's CUDA build links to a dozen of NVIDIA's libraries. `_gpu` (gpu/*.c) answers what decides
about memory. All other functions that this torch asks for get an empty one each, in `_unanswered`,
whose symbols are renamed to theirs; and a library that has nothing in it stands for each of
NVIDIA's by its name, so that the loader looks for no other. They are preloaded: where the real ones
are installed, too, these come first.
"""

from __future__ import annotations

import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from memreplay.dryrun.elf import Needs, needs, renamed
from memreplay.errors import MemreplayError

HERE = Path(__file__).parent

# As setup.py and gpu/unanswered.c make them.
_LIBRARY = "memreplay_name_" + 50 * "_"
_FUNCTION = "memreplay_nothing_{}" + 106 * "_"
FUNCTIONS = 4096

# NVIDIA's libraries, by the names that torch's ask for.
_NVIDIA = re.compile(r"lib(?:cu|nv|nccl)[\w-]*\.so(?:\.|$)")
# What torch opens by itself, when it needs it.
_OPENED = ("libcuda.so.1", "libnvidia-ml.so.1")
# Functions of theirs. C++ names begin with _Z, and are torch's own.
_THEIRS = re.compile(
    r"(?:cu[A-Z]|cuda|__cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvJitLink|"
    r"nvml|nvrtc|nvshmem|nvtx)"
)


class NoCudaError(MemreplayError):
    """A torch that cannot run dry: it was built without CUDA, or for another kind of card."""


class Runtime(NamedTuple):
    """What a program is started with."""

    preload: tuple[Path, ...]
    """The libraries for LD_PRELOAD, in their order."""
    more: Path
    """The one of them whose functions do nothing."""
    unanswered: tuple[str, ...]
    """The functions that do nothing: function i has `memreplay_counts[i]`, its calls."""
    cuda: int
    """The CUDA that torch was built with: 11, 12 or 13."""


def built(name: str) -> Path:
    """A library of this package's. Raises NoCudaError where it was not built."""
    for suffix in EXTENSION_SUFFIXES:
        path = HERE / f"{name}{suffix}"
        if path.exists():
            return path
    raise NoCudaError(
        "dry runs need Linux with glibc, on x86-64 or ARM: elsewhere PyTorch has no CUDA build"
    )


def lay_out(torch: Path, folder: Path) -> Runtime:
    """Write the libraries for the torch that is installed in a folder (its package).

    Raises NoCudaError for a torch without CUDA, ElfError for libraries that cannot be read.
    """
    all_needs = [needs(path) for path in sorted((torch / "lib").glob("*.so"))]
    libraries = {name for one in all_needs for name in one.libraries if _NVIDIA.match(name)}
    cuda = _version(libraries, torch)
    gpu = built("_gpu")
    missing = _missing(all_needs, needs(gpu))
    if len(missing) > FUNCTIONS:
        raise NoCudaError(
            f"this torch asks for {len(missing):,} functions of NVIDIA's libraries; memreplay has"
            f" room for {FUNCTIONS:,}: install a newer memreplay"
        )
    names = {_FUNCTION.format(i): name for i, name in enumerate(missing)}
    more = folder / "libmemreplay_more.so"
    more.write_bytes(
        renamed(built("_unanswered").read_bytes(), names | {_LIBRARY: "libmemreplay_more.so"})
    )
    thin = built("_thin").read_bytes()
    # LD_PRELOAD has no way to name a path with a space.
    card = folder / "libmemreplay_gpu.so"
    card.symlink_to(gpu)
    preload = [card, more]
    for name in sorted(libraries | set(_OPENED)):
        preload.append(folder / name)
        preload[-1].write_bytes(renamed(thin, {_LIBRARY: name}))
    return Runtime(tuple(preload), more, missing, cuda)


def _version(libraries: set[str], torch: Path) -> int:
    for name in libraries:
        found = re.match(r"libcudart\.so\.(\d+)", name)
        if found:
            return int(found[1])
    if (torch / "lib" / "libtorch_hip.so").exists():
        raise NoCudaError("this torch was built for AMD's cards: a dry run needs its CUDA build")
    raise NoCudaError(
        "this torch was built without CUDA: `pip install --no-deps torch` on Linux gets the build"
        " that a dry run needs, without NVIDIA's libraries"
    )


def _missing(all_needs: list[Needs], gpu: Needs) -> tuple[str, ...]:
    """The functions that nobody has, in order."""
    undefined = {name for one in all_needs for name in one.undefined if _THEIRS.match(name)}
    defined = {name for one in all_needs for name in one.defined}
    return tuple(sorted(undefined - defined - gpu.defined))
