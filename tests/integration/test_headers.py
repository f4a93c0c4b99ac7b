"""The C declarations of the simulated GPU match NVIDIA's headers, which ci/truth installs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDER = os.environ.get("MEMREPLAY_CUDA_HEADERS", "")
CARD = ROOT / "src/memreplay/dryrun/gpu/card.c"
PUT = re.compile(r"put\(to, (\d+), (\d+), (\d), .*?/\* (\w+(?:\[\d\])?)[,\w ]* \*/")
# The values of cudaDeviceAttr and CUdevice_attribute that attribute() in card.c uses.
ATTRIBUTES = {
    1: "MaxThreadsPerBlock",
    2: "MaxBlockDimX",
    3: "MaxBlockDimY",
    4: "MaxBlockDimZ",
    5: "MaxGridDimX",
    6: "MaxGridDimY",
    7: "MaxGridDimZ",
    8: "MaxSharedMemoryPerBlock",
    9: "TotalConstantMemory",
    10: "WarpSize",
    11: "MaxPitch",
    12: "MaxRegistersPerBlock",
    14: "TextureAlignment",
    15: "GpuOverlap",
    16: "MultiProcessorCount",
    19: "CanMapHostMemory",
    31: "ConcurrentKernels",
    33: "PciBusId",
    37: "GlobalMemoryBusWidth",
    38: "L2CacheSize",
    39: "MaxThreadsPerMultiProcessor",
    40: "AsyncEngineCount",
    41: "UnifiedAddressing",
    75: "ComputeCapabilityMajor",
    76: "ComputeCapabilityMinor",
    78: "StreamPrioritiesSupported",
    81: "MaxSharedMemoryPerMultiprocessor",
    82: "MaxRegistersPerMultiprocessor",
    95: "CooperativeLaunch",
    97: "MaxSharedMemoryPerBlockOptin",
    106: "MaxBlocksPerMultiprocessor",
    111: "ReservedSharedMemoryPerBlock",
    115: "MemoryPoolsSupported",
}
DRIVER_ALONE = {
    102: "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    103: "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED",
    120: "CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="no headers: MEMREPLAY_CUDA_HEADERS names none"),
]


def checked(folder: Path, cuda: int, statements: list[str]) -> str:
    """Return gcc's errors about static assertions, or an empty string if all assertions hold."""
    code = folder / "check.c"
    code.write_text(
        "#include <stddef.h>\n#include <cuda.h>\n#include <driver_types.h>\n"
        + "".join(f'_Static_assert({one}, "{one}");\n' for one in statements)
    )
    done = subprocess.run(
        ["gcc", "-std=c11", "-fsyntax-only", f"-I{FOLDER}/{cuda}", f"-I{FOLDER}/crt", str(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


@pytest.mark.parametrize("cuda", [11, 12, 13])
def test_device_property_fields_match_the_headers(tmp_path: Path, cuda: int) -> None:
    fields = PUT.findall(CARD.read_text(encoding="utf-8"))
    assert len(fields) > 25
    statements = [
        f"offsetof(struct cudaDeviceProp, {name}) == {new if cuda >= 13 else old}"
        for old, new, _, name in fields
    ]
    statements += [
        f"sizeof(((struct cudaDeviceProp *)0)->{name}) >= {n_bytes}"
        for _, _, n_bytes, name in fields
    ]
    sizes = dict(re.findall(r"(FROM_13|BEFORE_13), (\d+)\)", CARD.read_text(encoding="utf-8")))
    assert sizes == {"FROM_13": "1008", "BEFORE_13": "1032"}
    size = {11: 728, 12: 1032, 13: 1008}[cuda]
    assert not checked(tmp_path, cuda, [*statements, f"sizeof(struct cudaDeviceProp) == {size}"])


@pytest.mark.parametrize("cuda", [11, 12, 13])
def test_attribute_numbers_match_the_headers(tmp_path: Path, cuda: int) -> None:
    text = CARD.read_text(encoding="utf-8")
    body = text[text.index("static int attribute(") :].partition("\n}\n")[0]
    said = {int(number) for number in re.findall(r"case (\d+):", body)} | {33}
    assert said == {*ATTRIBUTES, *DRIVER_ALONE}
    statements = [f"cudaDevAttr{name} == {number}" for number, name in ATTRIBUTES.items()]
    statements += [f"{name} == {number}" for number, name in DRIVER_ALONE.items()]
    assert not checked(tmp_path, cuda, statements)


@pytest.mark.parametrize("cuda", [11, 12, 13])
def test_error_codes_and_enums_match_the_headers(tmp_path: Path, cuda: int) -> None:
    statements = [
        "cudaErrorInvalidValue == 1",
        "cudaErrorMemoryAllocation == 2 && CUDA_ERROR_OUT_OF_MEMORY == 2",
        "cudaErrorInvalidDevice == 101 && CUDA_ERROR_INVALID_DEVICE == 101",
        "cudaErrorInvalidResourceHandle == 400 && CUDA_ERROR_INVALID_HANDLE == 400",
        "cudaErrorNotReady == 600 && CUDA_ERROR_NOT_READY == 600",
        "cudaErrorNoDevice == 100",
        "cudaMemoryTypeUnregistered == 0 && cudaMemoryTypeDevice == 2",
        f"sizeof(struct cudaFuncAttributes) == {56 if cuda == 11 else 144}",
        "offsetof(struct cudaFuncAttributes, maxThreadsPerBlock) == 24",
        "offsetof(struct cudaFuncAttributes, maxDynamicSharedSizeBytes) == 44",
        f"sizeof(struct cudaPointerAttributes) == {88 if cuda == 13 else 24}",
        "offsetof(struct cudaPointerAttributes, devicePointer) == 8",
        "cudaErrorNoKernelImageForDevice == 209",
    ]
    found = checked(tmp_path, cuda, statements)
    assert not found
    # Make sure that a wrong value fails the check.
    assert "cudaErrorNoDevice == 99" in checked(tmp_path, cuda, ["cudaErrorNoDevice == 99"])
