"""Each simulated card has all its properties, and is found by its common names."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from ctypes import byref, c_char, c_int, c_size_t
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.cards import CARDS, EXACT, OF_ANOTHER, TO_GIB, TO_MIB, Card, environment, find
from memreplay.dryrun.runtime import built
from memreplay.errors import UsageError
from memreplay.snapshot.cards import OUTSIDE_ERROR
from tests.conftest import ROOT

MIB, GIB = 1 << 20, 1 << 30
BY_KEY = {card.key: card for card in CARDS}


def loaded(folder: Path, variables: dict[str, str]) -> Any:
    """Load the library that simulates the card. It reads its environment variables at its first
    call.
    """
    library = ctypes.CDLL(str(shutil.copy(built("_gpu"), folder / "gpu.so")))
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        library.cudaGetDeviceCount(byref(c_int()))
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return library


def attribute(gpu: Any, which: int) -> int:
    value = c_int()
    assert gpu.cudaDeviceGetAttribute(byref(value), which, 0) == 0
    return value.value


def test_all_promised_cards_exist() -> None:
    promised = (
        "T4 A10G L4 L40S RTX3090 RTX4090 RTX5090 V100-16 V100-32 A100-40 A100-80 H100 H200 B200"
    )
    assert set(promised.split()) <= BY_KEY.keys()


def test_names_are_unique() -> None:
    assert len(BY_KEY) == len({card.name for card in CARDS}) == len(CARDS)
    for card in CARDS:
        for name in (card.key, card.name):
            assert find(name) is card


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_figures_have_their_declared_unit(card: Card) -> None:
    assert card.exact in (EXACT, TO_MIB, TO_GIB)
    assert card.context_exact in (EXACT, TO_GIB, OF_ANOTHER)
    # Drivers offer memory in units of 64 KiB; other figures in bytes are typos.
    if card.exact == EXACT:
        assert card.bytes % 65536 == 0
    if card.context_exact == EXACT:
        assert card.context_bytes % 65536 == 0
    assert 0.1 * GIB < card.context_bytes < 0.8 * GIB
    assert 10 * GIB < card.bytes < 288 * GIB
    assert 0 <= card.limits.shared_sm - card.limits.shared_block_optin <= 16384
    for word in ("bytes", "SMs", "L2", "us", "ontext"):
        assert word in card.source


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_usable_memory_is_a_little_below_the_advertised_size(card: Card) -> None:
    """ECC and the driver take about 2 to 8 percent of the gigabytes in the card's name."""
    sold = {
        "T4": 16, "P100": 16, "V100-16": 16, "V100-32": 32, "RTX2080Ti": 11, "A10": 24, "A10G": 24,
        "A6000": 48, "RTX3090": 24, "A100-40": 40, "A100-40-PCIe": 40, "A100-80": 80,
        "A100-80-PCIe": 80, "L4": 24, "L40": 48, "L40S": 48, "RTX4090": 24, "H100": 80,
        "H100-PCIe": 80, "H20": 96, "H200": 141, "GH200": 96, "B200": 180, "B300": 270,
        "RTX5090": 32, "RTXPRO6000": 96,
    }  # fmt: skip
    assert 0.90 * sold[card.key] * GIB < card.bytes < sold[card.key] * GIB


@pytest.mark.parametrize(
    "text, key",
    [
        ("t4", "T4"),
        ("a100_80", "A100-80"),
        ("A100 80", "A100-80"),
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
        ("A100-SXM4-80GB", "A100-80"),
        ("nvidia a100 80gb pcie", "A100-80-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("h100 pcie", "H100-PCIe"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("GeForce RTX 4090", "RTX4090"),
        ("rtx 4090", "RTX4090"),
        ("NVIDIA T4", "T4"),
        ("Tesla V100-SXM2-32GB", "V100-32"),
        ("NVIDIA L40", "L40"),
        ("L40S", "L40S"),
        ("a10", "A10"),
        ("a10g", "A10G"),
    ],
)
def test_card_is_found_by_its_common_names(text: str, key: str) -> None:
    assert find(text).key == key


@pytest.mark.parametrize(
    "text, near",
    [
        ("A100", "A100-40 or A100-40-PCIe or A100-80 or A100-80-PCIe"),
        ("v100", "V100-16 or V100-32"),
        ("RTX4900", "RTX4090"),
        ("H1000", "H100"),
    ],
)
def test_unknown_card_suggests_similar_names(text: str, near: str) -> None:
    with pytest.raises(UsageError) as error:
        find(text)
    message = str(error.value)
    assert message.startswith(f"unknown card '{text}': did you mean {near}")
    assert message.endswith("?")


@pytest.mark.parametrize("text", ["", "MI300X", "nvidia", "-"])
def test_unknown_card_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match=f"unknown card '{text}': known cards: T4, "):
        find(text)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_library_reports_the_cards_properties(tmp_path: Path, card: Card) -> None:
    gpu = loaded(tmp_path, environment(card, cuda=13, count=3))
    count, total = c_int(), c_size_t()
    assert gpu.cudaGetDeviceCount(byref(count)) == 0
    assert count.value == 3
    assert gpu.cuDeviceTotalMem_v2(byref(total), 0) == 0
    assert total.value == card.bytes
    name = (c_char * 256)()
    assert gpu.cuDeviceGetName(name, 256, 0) == 0
    assert name.value.decode() == card.name
    version = c_int()
    assert gpu.cudaRuntimeGetVersion(byref(version)) == 0
    assert version.value // 1000 == 13
    limits = card.limits
    said = {
        16: card.sms,
        37: card.bus_width,
        38: card.l2,
        39: limits.threads_sm,
        75: card.major,
        76: card.minor,
        81: limits.shared_sm,
        97: limits.shared_block_optin,
        106: limits.blocks_sm,
    }
    assert {which: attribute(gpu, which) for which in said} == said


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.key)
def test_memory_outside_the_allocator_is_plausible(card: Card) -> None:
    outside = card.outside
    # the sum for a program that trains on one card, with two threads that use cuBLAS and cuDNN
    taken = [outside.kernels, *[outside.cublas, outside.cudnn] * 2, outside.cublas_more]
    assert card.training_bytes == card.context_bytes + sum(taken)
    assert card.context_bytes + 100 * MIB < card.training_bytes < 1 * GIB
    assert 0 < outside.nccl < GIB
    assert all(each % MIB == 0 for each in outside)


def test_estimates_are_near_what_was_reported() -> None:
    """Out-of-memory messages told how much a process had besides PyTorch's memory."""
    for key, reported in (("RTX3090", 0.31), ("V100-32", 0.38)):
        assert abs(find(key).training_bytes - reported * GIB) < OUTSIDE_ERROR
    for key in ("H100", "H200"):
        without_cudnn = find(key).training_bytes - 2 * find(key).outside.cudnn
        for reported_mib in (750.8, 766.8, 772.8, 812):
            for taken in (find(key).training_bytes, without_cudnn):
                assert abs(taken - reported_mib * MIB) < OUTSIDE_ERROR
    assert [card.key for card in CARDS if card.is_outside_measured] == ["H200"]


def test_memory_can_be_overridden(tmp_path: Path) -> None:
    variables = environment(find("H200"), cuda=12, bytes=5 * GIB, lag=4)
    said = dict(part.split("=") for part in variables["MEMREPLAY_GPU"].split(";"))
    assert said["bytes"] == str(5 * GIB)
    assert said["context"] == str(find("H200").context_bytes)
    assert said["lag"] == "4"
    assert said["cuda"] == "12"
    gpu = loaded(tmp_path, variables)
    total = c_size_t()
    assert gpu.cuDeviceTotalMem_v2(byref(total), 0) == 0
    assert total.value == 5 * GIB


def test_memory_size_is_checked() -> None:
    assert environment(find("T4"), cuda=13, bytes=0)["MEMREPLAY_GPU"].startswith("bytes=0;")


def test_module_imports_nothing_heavy() -> None:
    text = (
        "import sys; import memreplay.errors; before = set(sys.modules);"
        "import memreplay.dryrun.cards; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not {"json", "dataclasses", "difflib", "inspect"} & set(done.stdout.split())


def test_docs_list_every_card() -> None:
    page = (ROOT / "docs" / "dryrun.md").read_text(encoding="utf-8").partition("## Cards\n")[2]
    row = r"\| `([^`]+)` \| ([^|]+) \| ([\d,]+) \| [^|]+ \| ([\d.]+) \| (\d+) \| ([\d,]+) MiB"
    rows = re.findall(row, page)
    assert rows == [
        (
            card.key,
            card.name,
            f"{card.bytes:,}",
            f"{card.major}.{card.minor}",
            str(card.sms),
            f"{card.context_bytes / 2**20:,.0f}",
        )
        for card in CARDS
    ]
