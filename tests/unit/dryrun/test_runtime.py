"""Replacement libraries for an installed torch. The one here is small and calls arbitrary
functions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from memreplay.dryrun import runtime
from memreplay.dryrun.runtime import CpuTorchError, NoCudaError, lay_out
from tests.unit.dryrun.fake_torch import compile_, library_of

# Some NVIDIA functions that are implemented, and some that aren't.
TORCH = """
#include <stdio.h>
#include <stddef.h>
int cudaMalloc(void **, size_t); int cudaMemGetInfo(size_t *, size_t *);
int cublasCreate_v2(void **); int cusparseStrange(int); long cudnnStrange(void);
int own(void) { return 7; }
int start(void) {
    void *at, *handle = 0; size_t left, all;
    int made = cudaMalloc(&at, 5 << 20), asked = cudaMemGetInfo(&left, &all);
    cublasCreate_v2(&handle);
    printf("%d %d %zu %zu %d %d %ld\\n", made, asked, left, all, handle != 0,
           cusparseStrange(1), cudnnStrange());
    return 0;
}
"""
PROGRAM = "int start(void); int main(void) { return start(); }"


def torch_package(folder: Path, cudart: str = "libcudart.so.12") -> Path:
    """Create a package with one library that needs NVIDIA's, which don't exist."""
    libraries = folder / "torch" / "lib"
    libraries.mkdir(parents=True)
    library_of(TORCH, libraries, (cudart, "libcublas.so.12"))
    return folder / "torch"


def program_of(package: Path, *options: str) -> Path:
    """Compile a program that calls the package's library."""
    library = str(package / "lib/libtorch_cuda.so")
    needs_more = "-Wl,--allow-shlib-undefined"
    return compile_(package.parent, PROGRAM, "program", library, needs_more, *options)


def test_program_runs_on_our_libraries(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    program = program_of(package)
    alone = subprocess.run([program], capture_output=True, text=True, check=False)
    assert "libcudart.so.12" in alone.stderr  # cannot be found
    folder = tmp_path / "libraries"
    folder.mkdir()
    made = lay_out(package, folder)
    assert made.cuda == 12
    assert made.unanswered == ("cudnnStrange", "cusparseStrange")
    names = [path.name for path in made.preload]
    assert names[1:] == [
        "libmemreplay_more.so",
        "libcublas.so.12",
        "libcuda.so.1",
        "libcudart.so.12",
        "libnvidia-ml.so.1",
    ]
    environment = os.environ | {
        "LD_PRELOAD": ":".join(map(str, made.preload)),
        "MEMREPLAY_GPU": "bytes=1073741824",
    }
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    left = (1 << 30) - (6 << 20)
    assert (done.stdout, done.stderr) == (f"0 0 {left} {1 << 30} 1 0 0\n", "")


def test_our_libraries_are_loaded_first(tmp_path: Path) -> None:
    """The rpath names a folder with NVIDIA's libraries, as in an installed torch."""
    package = torch_package(tmp_path)
    real = tmp_path / "nvidia"
    real.mkdir()
    wrong = "#include <stddef.h>\nint cudaMalloc(void **at, size_t n) { return 100; }"
    compile_(real, wrong, "libcudart.so.12", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12")
    program = program_of(package, f"-Wl,--disable-new-dtags,-rpath,{real}")
    folder = tmp_path / "libraries"
    folder.mkdir()
    preload = ":".join(map(str, lay_out(package, folder).preload))
    done = subprocess.run(
        [program],
        env=os.environ | {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": str(real)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("0 0 ")


@pytest.mark.parametrize(
    "cudart, cuda", [("libcudart.so.11.0", 11), ("libcudart.so.12", 12), ("libcudart.so.13", 13)]
)
def test_cuda_version_is_read_from_the_library(tmp_path: Path, cudart: str, cuda: int) -> None:
    assert lay_out(torch_package(tmp_path, cudart), tmp_path).cuda == cuda


def test_torch_without_cuda_is_an_error(tmp_path: Path) -> None:
    libraries = tmp_path / "torch/lib"
    libraries.mkdir(parents=True)
    shutil.copy(runtime.built("_thin"), libraries / "libtorch_cpu.so")
    with pytest.raises(CpuTorchError, match="this torch was built without CUDA"):
        lay_out(tmp_path / "torch", tmp_path)
    (libraries / "libtorch_hip.so").touch()
    (libraries / "libtorch_hip.so").write_bytes((libraries / "libtorch_cpu.so").read_bytes())
    with pytest.raises(
        NoCudaError, match="this torch was built for AMD; a dry run needs a CUDA build"
    ):
        lay_out(tmp_path / "torch", tmp_path)


def test_missing_libraries_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtime, "HERE", tmp_path)
    with pytest.raises(NoCudaError, match="dry runs need Linux"):
        runtime.built("_gpu")


def test_more_functions_than_fit_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runtime, "FUNCTIONS", 1)
    with pytest.raises(
        NoCudaError,
        match=r"needs 2 functions .* the 1 that memreplay supports; install a newer",
    ):
        lay_out(torch_package(tmp_path), tmp_path)


def test_every_source_file_is_built(root: Path) -> None:
    named = (root / "setup.py").read_text().partition("CARD = (")[2].partition(")")[0]
    there = {path.stem for path in (root / "src/memreplay/dryrun/gpu").glob("*.c")}
    assert set(re.findall(r'"(\w+)"', named)) == there - {"unanswered", "operators"}
