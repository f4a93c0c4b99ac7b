"""A fake torch for tests. It has the names that a recording uses, and allocates on the simulated
GPU.

`torch.take(BYTES)` allocates, `torch.cuda.init()` starts CUDA. In a snapshot each allocation is
a separate segment, and the arguments of the recording are under the key `asked`.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tests.conftest import ROOT

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
MIB, GIB = 1 << 20, 1 << 30

TORCH = {
    "__init__": f"""
import sys
sys.path.append({str(ROOT)!r})
__version__ = "9.9"
from . import _C, cuda
from .cuda.memory import OutOfMemoryError, take
""",
    "_C": "",
    "cuda/__init__": """
import ctypes, os
from . import memory
_queued_calls, started = [], False
def library():
    return ctypes.PyDLL(os.path.join(os.path.dirname(__file__), "../lib/libtorch_cuda.so"))
def _lazy_call(call):
    call() if started else _queued_calls.append((call, []))
def is_initialized():
    return started
def init():
    global started
    if not started:
        device_count()
        started = True
        for call, _ in _queued_calls:
            call()
def device_count():
    return library().count() if os.environ.get("LD_PRELOAD") else 2
def memory_stats(device):
    return {"device": device, **memory.statistics.get(device, {})}
class Properties:
    name, total_memory = os.environ.get("MEMREPLAY_GPU_NAME", "A card"), 1 << 30
def get_device_properties(device):
    if os.environ.get("LD_PRELOAD"):
        Properties.total_memory = memory.sizes()[1]
    return Properties
""",
    "cuda/memory": """
import ctypes, sys
from tests.build import SnapshotBuilder
asked, made, statistics = [], SnapshotBuilder(devices=8), {}
PAGE = 2 << 20
class OutOfMemoryError(RuntimeError):
    pass
def sizes():
    from . import library
    left, whole = ctypes.c_size_t(), ctypes.c_size_t()
    library().sizes(ctypes.byref(left), ctypes.byref(whole))
    return left.value, whole.value
def take(size, device=0):
    from . import init, library
    init()
    by = sys._getframe(1)
    frames = [(by.f_code.co_name, by.f_code.co_filename, by.f_lineno)]
    one = statistics.setdefault(device, {"num_ooms": 0, "num_alloc_retries": 0})
    library().choose(device)
    at, whole = ctypes.c_void_p(), -(-size // PAGE) * PAGE
    if library().take(ctypes.byref(at), ctypes.c_size_t(whole)):
        one["num_ooms"] += 1
        made.oom(size, sizes()[0], device, frames=frames)
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.\\nMore.")
    made.segment_alloc(at.value, whole, device, frames=frames)
    made.alloc(at.value, size, device, frames=frames)
    made.segment(at.value, whole, device, blocks=[made.block(at.value, whole, size)])
    one["allocation.all.allocated"] = one.get("allocation.all.allocated", 0) + 1
    for name, more in (("reserved", whole), ("allocated", whole), ("requested", size)):
        one[f"{name}_bytes.all.peak"] = one.get(f"{name}_bytes.all.peak", 0) + more
def _record_memory_history(enabled="all", **options):
    asked.append([enabled, options])
def _snapshot():
    return {**made.build(), "asked": asked}
def _dump_snapshot(filename="dump_snapshot.pickle"):
    import pickle
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
""",
}

# Report blocks to the tracer by its virtual functions 4 and 5, which follow two destructors.
HEADER = """
struct C10_API PyInterpreterVTable {
  virtual ~PyInterpreterVTable() = default;
  // virtual void not_there() const = 0;
  virtual std::string name() const = 0; /* virtual, too */
  virtual void incref(
      PyObject* pyobj) const = 0;
  virtual void trace_gpu_memory_allocation(
      c10::DeviceType device_type,
      uintptr_t ptr) const = 0;
  virtual void trace_gpu_memory_deallocation(c10::DeviceType device_type, uintptr_t ptr)
      const = 0;
};
"""
TRACED = """
typedef void (*told)(void *, char, unsigned long);
static told ***tracing;
void _ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE(told ***by) { tracing = by; }
void tell(int slot, unsigned long at) {
    told **object = *tracing;
    (*object)[slot](object, 1, at);
}
"""

# The C part, linked to NVIDIA's libraries. Functions that read values have the names of PyTorch's
# own.
LIBRARY = """
#include <stddef.h>
int cudaMalloc(void **, size_t), cudaMemGetInfo(size_t *, size_t *), cudaSetDevice(int);
int cudaGetDeviceCount(int *), cudaMemcpy(void *, void *, size_t, int);
int cusparseStrangeGetSize(int), cusparseStrange(int);
int cudnnGetCTCLossWorkspaceSize_v8(void *, int, void *, void *, void *, size_t *);
int cudnnDropoutGetStatesSize(void *, size_t *);
int take(void **at, size_t bytes) { return cudaMalloc(at, bytes); }
int sizes(size_t *left, size_t *whole) { return cudaMemGetInfo(left, whole); }
int choose(int device) { return cudaSetDevice(device); }
int count(void) { int n = 0; cudaGetDeviceCount(&n); return n; }
int _ZN2at4_ops7nonzero4callEv(void) {
    char value[4]; void *at; cudaMalloc(&at, 4); return cudaMemcpy(value, at, 4, 2) + 7;
}
int _ZN2at4_ops19_local_scalar_dense4callEv(void) {
    char value[4]; void *at; cudaMalloc(&at, 4); return cudaMemcpy(value, at, 4, 2) + 7;
}
int workspace(void) {
    size_t bytes; return cudnnGetCTCLossWorkspaceSize_v8(0, 0, 0, 0, 0, &bytes);
}
int generators(void) { size_t bytes; cudnnDropoutGetStatesSize(0, &bytes); return (int)bytes; }
int strange(void) { return cusparseStrangeGetSize(1) + cusparseStrange(2); }
"""
METADATA = """Metadata-Version: 2.1
Name: torch
Version: 9.9
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == "Linux"
"""


def compile_(folder: Path, text: str, name: str, *options: str) -> Path:
    """Compile this C code into a program or a library."""
    source = folder / f"{name}.c"
    source.write_text(text)
    path = folder / name
    subprocess.run([COMPILER, "-w", "-o", path, source, *options], check=True)
    source.unlink()
    return path


def library_of(text: str, folder: Path, nvidia: tuple[str, ...]) -> Path:
    """Return a libtorch_cuda.so that needs these NVIDIA libraries, which don't exist."""
    theirs = []
    for name in nvidia:
        nothing = f"int nothing_of_{name[3:7]};"
        theirs.append(compile_(folder, nothing, name, "-shared", f"-Wl,-soname,{name}"))
    options = ("-shared", "-fPIC", "-Wl,--no-as-needed", *map(str, theirs))
    made = compile_(folder, text, "libtorch_cuda.so", *options)
    for path in theirs:
        path.unlink()
    return made


@functools.cache
def compiled() -> bytes:
    """Return the fake torch's C library, compiled once per process."""
    with tempfile.TemporaryDirectory() as folder:
        return library_of(LIBRARY, Path(folder), ("libcudart.so.13", "libcudnn.so.9")).read_bytes()


def write_torch(folder: Path, *, library: bool = True) -> Path:
    """Install the fake torch into a folder from which it can be imported; return its package."""
    package = folder / "torch"
    for name, text in TORCH.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (package / "lib").mkdir()
    if library:
        (package / "lib/libtorch_cuda.so").write_bytes(compiled())
    about = folder / "torch-9.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    return package


def python_without(folder: Path) -> Path:
    """Return a Python with only its standard library: a virtual environment without pip."""
    made = folder / "bare"
    (made / "bin").mkdir(parents=True)
    python = made / "bin/python3"
    python.symlink_to(os.path.realpath(sys.executable))
    home = os.path.dirname(os.path.realpath(sys.executable))
    (made / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    return python
