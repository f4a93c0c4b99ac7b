"""Lay out replacements for the NVIDIA libraries that one torch uses.

PyTorch's CUDA build links to about a dozen of NVIDIA's libraries. `_gpu` (gpu/*.c) implements
everything that affects memory. All other functions get an empty stub in `_unanswered`, whose
symbols are renamed to match. For each NVIDIA library, an empty library with the same name stops the
loader from looking for the real one. All of these are preloaded, so they take precedence over the
real ones.
"""

from __future__ import annotations

import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from memreplay.dryrun.elf import Needs, needs, renamed
from memreplay.errors import MemreplayError

HERE = Path(__file__).parent

# setup.py and gpu/unanswered.c use the same name.
_LIBRARY = "memreplay_name_" + 50 * "_"
_FUNCTION = "memreplay_nothing_{}" + 106 * "_"
FUNCTIONS = 4096

# NVIDIA's libraries, under the names that torch's libraries use.
_NVIDIA = re.compile(r"lib(?:cu|nv|nccl)[\w-]*\.so(?:\.|$)")
# Libraries that torch opens on demand.
_OPENED = ("libcuda.so.1", "libnvidia-ml.so.1")
# NVIDIA's functions. C++ names (_Z…) belong to torch.
_THEIRS = re.compile(
    r"(?:cu[A-Z]|cuda|__cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvJitLink|"
    r"nvml|nvrtc|nvshmem|nvtx)"
)


class NoCudaError(MemreplayError):
    """This torch doesn't support dry runs, because it was built without CUDA or for another kind of
    GPU.
    """


class CpuTorchError(NoCudaError):
    """This torch was built without CUDA."""


class Runtime(NamedTuple):
    """The libraries for a program."""

    preload: tuple[Path, ...]
    """The libraries for LD_PRELOAD, in order."""
    more: Path
    """The library with the stubs."""
    unanswered: tuple[str, ...]
    """Stub functions: function i counts its calls in `memreplay_counts[i]`."""
    cuda: int
    """Torch's CUDA version: 11, 12 or 13."""


def built(name: str) -> Path:
    """Return the path of a built library. Raises NoCudaError if it wasn't built."""
    for suffix in EXTENSION_SUFFIXES:
        path = HERE / f"{name}{suffix}"
        if path.exists():
            return path
    raise NoCudaError(
        "dry runs need Linux with glibc on x86-64 or ARM, because PyTorch has no CUDA"
        " build elsewhere"
    )


def lay_out(torch: Path, folder: Path) -> Runtime:
    """Write the libraries for the torch in this folder (its package).

    Raises NoCudaError for a torch without CUDA, ElfError for unreadable libraries.
    """
    all_needs = [needs(path) for path in sorted((torch / "lib").glob("*.so"))]
    libraries = {name for one in all_needs for name in one.libraries if _NVIDIA.match(name)}
    cuda = _version(libraries, torch)
    gpu = built("_gpu")
    missing = _missing(all_needs, needs(gpu))
    if len(missing) > FUNCTIONS:
        raise NoCudaError(
            f"this torch needs {len(missing):,} functions of NVIDIA's libraries, more than"
            f" the {FUNCTIONS:,} that memreplay supports; install a newer memreplay"
        )
    names = {_FUNCTION.format(i): name for i, name in enumerate(missing)}
    more = folder / "libmemreplay_more.so"
    more.write_bytes(
        renamed(built("_unanswered").read_bytes(), names | {_LIBRARY: "libmemreplay_more.so"})
    )
    thin = built("_thin").read_bytes()
    # LD_PRELOAD can't contain a path with spaces.
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
        raise NoCudaError("this torch was built for AMD; a dry run needs a CUDA build")
    raise CpuTorchError("this torch was built without CUDA")


def _missing(all_needs: list[Needs], gpu: Needs) -> tuple[str, ...]:
    """Return the functions that no library defines, in order."""
    undefined = {name for one in all_needs for name in one.undefined if _THEIRS.match(name)}
    defined = {name for one in all_needs for name in one.defined}
    return tuple(sorted(undefined - defined - gpu.defined))
