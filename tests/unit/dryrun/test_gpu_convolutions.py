"""Workspaces of the simulated cuDNN's convolutions, compared with measurements on an H200.

Measured with driver 580.159.04, PyTorch 2.11.0+cu130 and cuDNN 9.19.0.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import byref, c_int, c_int64, c_uint64, c_void_p
from math import ceil, prod
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dryrun.library import load, made

FLOAT, DOUBLE, HALF, BFLOAT16 = 0, 1, 2, 9
FORWARD, INPUT, WEIGHTS = "forward", "input", "weights"
# cudnn_graph.h: the first attribute of each pass's operation, which is its convolution. Weights,
# input and output follow.
ATTRIBUTES = {FORWARD: 702, INPUT: 708, WEIGHTS: 714}
HOPPER = "cuda=13;major=9;minor=0;sms=132"


class Convolution(NamedTuple):
    step: str  # forward, or the gradient of the input or the weights
    kind: int
    last: bool  # whether channels are last in memory
    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    @property
    def y(self) -> tuple[int, ...]:
        positions = (
            (n + 2 * self.padding - self.dilation * (taps - 1) - 1) // self.stride + 1
            for n, taps in zip(self.x[2:], self.w[2:], strict=True)
        )
        return (self.x[0], self.w[0], *positions)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tmp_path_factory.mktemp("convolutions"), HOPPER)


def strides(shape: tuple[int, ...], *, last: bool) -> list[int]:
    order = [0, *range(2, len(shape)), 1] if last else list(range(len(shape)))
    return [prod(shape[i] for i in order[order.index(axis) + 1 :]) for axis in range(len(shape))]


class Backend:
    """Sets attributes and asks for a plan's workspace, as cuDNN's frontend does."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.all: list[c_void_p] = []

    def make(self, kind: int) -> c_void_p:
        self.all.append(made(lambda out: self.gpu.cudnnBackendCreateDescriptor(kind, out)))
        return self.all[-1]

    def numbers(self, it: c_void_p, name: int, values: list[int]) -> None:
        array = (c_int64 * len(values))(*values)
        assert self.gpu.cudnnBackendSetAttribute(it, name, 3, c_int64(len(values)), array) == 0

    def descriptors(self, it: c_void_p, name: int, *others: c_void_p) -> None:
        array = (c_void_p * len(others))(*[other.value for other in others])
        assert self.gpu.cudnnBackendSetAttribute(it, name, 15, c_int64(len(others)), array) == 0

    def tensor(self, kind: int, shape: tuple[int, ...], *, last: bool) -> c_void_p:
        it, number = self.make(17), c_int(kind)
        assert self.gpu.cudnnBackendSetAttribute(it, 901, 1, c_int64(1), byref(number)) == 0
        self.numbers(it, 902, list(shape))
        self.numbers(it, 903, strides(shape, last=last))
        return it

    def graph(self, of: Convolution) -> c_void_p:
        convolution, operation, graph = self.make(1), self.make(10), self.make(15)
        spatial = len(of.x) - 2
        for name, number in ((102, of.dilation), (103, of.stride), (105, of.padding)):
            self.numbers(convolution, name, [number] * spatial)
        first = ATTRIBUTES[of.step]
        self.descriptors(operation, first, convolution)
        for i, shape in enumerate((of.w, of.x, of.y), 1):
            tensor = self.tensor(of.kind, shape, last=of.last)
            self.descriptors(operation, first + i, tensor)
        self.descriptors(graph, 801, operation)
        return graph

    def workspace(self, graph: c_void_p) -> int:
        heuristic, configuration = self.make(4), self.make(3)
        engine, plan = self.make(2), self.make(5)
        self.descriptors(heuristic, 201, graph)
        get = self.gpu.cudnnBackendGetAttribute
        results, count, found = (c_void_p * 1)(configuration.value), c_int64(), c_int64(-1)
        assert get(heuristic, 202, 15, c_int64(1), byref(count), results) == 0
        results[0] = engine.value
        assert get(configuration, 300, 15, c_int64(1), byref(count), results) == 0
        # Programs also build configurations from engines.
        self.descriptors(configuration, 300, engine)
        self.descriptors(plan, 401, configuration)
        assert get(plan, 402, 3, c_int64(1), byref(count), byref(found)) == 0
        return found.value

    def destroy(self) -> None:
        for one in self.all:
            assert self.gpu.cudnnBackendDestroyDescriptor(one) == 0


def workspace(gpu: Any, of: Convolution) -> int:
    backend = Backend(gpu)
    found = backend.workspace(backend.graph(of))
    backend.destroy()
    return found


def conv(step: str, kind: int, x: tuple[int, ...], w: tuple[int, ...], **more: Any) -> Convolution:
    """Return a convolution with channels first."""
    return Convolution(step, kind, False, x, w, **more)


def last(step: str, kind: int, x: tuple[int, ...], w: tuple[int, ...], **more: Any) -> Convolution:
    """Return a convolution with channels last."""
    return Convolution(step, kind, True, x, w, **more)


MEASURED = [
    # The first three are from a recording with a batch of 64, the others have 32.
    (conv(FORWARD, FLOAT, (64, 256, 8, 8), (512, 256, 4, 4), stride=2, padding=1), 14680080),
    (conv(WEIGHTS, FLOAT, (64, 128, 16, 16), (256, 128, 4, 4), stride=2, padding=1), 23069231),
    (conv(FORWARD, FLOAT, (64, 3, 32, 32), (128, 3, 4, 4), stride=2, padding=1), 0),
    (conv(FORWARD, FLOAT, (32, 3, 320, 320), (64, 3, 7, 7), stride=2, padding=3), 249074448),
    (conv(FORWARD, FLOAT, (32, 64, 80, 80), (128, 64, 3, 3), stride=2, padding=1), 52723728),
    (conv(FORWARD, FLOAT, (32, 512, 28, 28), (128, 512, 1, 1)), 0),
    (conv(INPUT, FLOAT, (32, 128, 40, 40), (128, 128, 3, 3), padding=1), 53018771),
    (conv(WEIGHTS, FLOAT, (32, 128, 40, 40), (128, 128, 3, 3), padding=1), 61276839),
    (conv(WEIGHTS, FLOAT, (32, 512, 28, 28), (256, 512, 1, 1)), 16777216),
    (conv(WEIGHTS, FLOAT, (32, 256, 56, 56), (512, 256, 1, 1), stride=2), 162529935),
    (conv(FORWARD, HALF, (32, 256, 14, 14), (256, 256, 3, 3), padding=1), 7602192),
    (conv(INPUT, HALF, (32, 144, 40, 40), (320, 144, 1, 1), stride=2), 22937747),
    (last(FORWARD, HALF, (32, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3), 12870160),
    (last(INPUT, HALF, (32, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3), 25943696),
    (last(WEIGHTS, BFLOAT16, (32, 768, 7, 7), (768, 1, 7, 7), padding=3), 38535168),
    (last(FORWARD, HALF, (32, 64, 56, 56), (64, 64, 3, 3), padding=1), 131),
    (last(WEIGHTS, FLOAT, (32, 96, 56, 56), (96, 1, 7, 7), padding=3), 318219895),
]


@pytest.mark.parametrize("of, actual", MEASURED)
def test_sizes_are_close_to_those_on_a_card(gpu: Any, of: Convolution, actual: int) -> None:
    assert abs(workspace(gpu, of) - actual) <= max(0.04 * actual, 131)


# --- oracle --------------------------------------------------------------------------------------


class Facts:
    """A convolution's sizes in bytes."""

    def __init__(self, of: Convolution, sms: int) -> None:
        self.of, self.sms = of, sms
        self.element = 4 if of.kind == FLOAT else 2
        self.x, self.w, self.y = (prod(one) * self.element for one in (of.x, of.w, of.y))
        self.batch, self.channels = of.x[:2]
        self.filters, self.taps = of.w[0], prod(of.w[2:])
        self.groups = self.channels // of.w[1]
        self.sums = prod(of.w) * 4
        self.positions = prod(of.y[2:])

    def padded(self, to: int) -> int:
        return self.x // self.channels * ceil(self.channels / to) * to

    @property
    def partial(self) -> int:
        wide = self.element == 4 and self.of.last
        columns = self.of.w[1] * self.taps
        width = 64 if columns % 128 and not wide else 128
        tiles = ceil(self.filters / 128) * ceil(columns / width)
        if wide:
            shares = 2 * self.sms // tiles
        elif self.element == 4:
            shares = ceil(self.sms / tiles)
        else:
            shares = self.sms // tiles
        least = {
            (4, True, True): 150,
            (4, True, False): 1500,
            (4, False, True): 800,
            (4, False, False): 800,
        }
        point = self.taps == 1
        otherwise = 1500 if point else 3000
        each = least.get((self.element, self.of.last, point), otherwise)
        shares = min(shares, self.batch * self.positions // each)
        return shares * self.sums if shares > 1 else 0


def expected(of: Convolution, sms: int) -> int:
    it = Facts(of, sms)
    if it.positions == 1:
        return it.x + it.w if of.step == FORWARD and prod(of.x[2:]) > 1 else 0
    if it.groups > 1 and it.groups == it.channels:
        return depthwise(it)
    few = it.channels <= 4
    rules: dict[tuple[bool, bool], Callable[[Facts], int]] = {
        (True, True): few_last,
        (True, False): many_last,
        (False, True): few_first,
        (False, False): many_first,
    }
    return rules[of.last, few](it)


def depthwise(it: Facts) -> int:
    if it.of.step != WEIGHTS or not it.of.last:
        return 0
    if it.element == 2:
        return 8 * it.batch * ceil(it.channels / 32) * 32 * it.taps * 4
    return 8 * it.x if it.taps >= 49 and it.channels < 384 else 0


def few_last(it: Facts) -> int:
    step = it.of.step
    if it.element == 2:
        if step == INPUT:
            return it.padded(8)
        large = it.taps > 16
        if step == FORWARD:
            return it.padded(4) if large else 0 if it.channels == 3 else it.padded(8)
        return it.padded(4 if large else 8) + it.partial
    if step == WEIGHTS and it.channels == 3 and it.of.stride == 1:
        return it.padded(4) + it.partial
    return {FORWARD: it.x + it.w, INPUT: 0, WEIGHTS: it.x + it.y + it.partial}[step]


def many_last(it: Facts) -> int:
    step = it.of.step
    if step == WEIGHTS:
        copied = it.element == 4 and (it.groups > 1 or it.of.dilation > 1)
        return it.partial + (it.x + it.y if copied else 0)
    copied = step == INPUT and it.element == 4 and it.groups > 1 and it.of.stride > 1
    return it.w + it.y if copied else 0


def few_first(it: Facts) -> int:
    step = it.of.step
    if it.element == 2:
        if step == FORWARD:
            return it.padded(4) + it.y if it.taps > 16 or it.channels == 4 or it.channels > 3 else 0
        if step == INPUT:
            return it.padded(8 if it.of.stride > 1 else 4) + it.y
        return it.padded(4) + it.y + it.partial
    elements = prod(it.of.w)
    if step == WEIGHTS:
        return it.x + it.y + it.partial if elements >= 5000 else 0
    return it.x + it.w + it.y if step == FORWARD and elements >= 9000 else 0


def many_first(it: Facts) -> int:
    step, copied = it.of.step, it.x + it.y
    if it.taps == 1 and it.of.stride == 1:
        if step != WEIGHTS:
            return 0
        if it.element == 2:
            return min(it.batch * it.sums, copied + it.partial)
        if it.channels <= 32 and prod(it.of.x[2:]) >= 3000:
            return copied + it.partial
        return it.batch * it.sums if prod(it.of.w) < 1280 * 1280 else copied
    if step == WEIGHTS:
        return copied + (it.partial or it.w)
    if it.taps == 1:
        small = it.channels <= 64 and (step == FORWARD or it.element == 4)
        return 0 if small else copied
    if step == FORWARD and it.element == 4 and it.channels <= 64 and it.filters >= 128:
        return it.x + it.w
    return copied + it.w


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    groups = draw(st.sampled_from((1, 1, 1, 2, 8)))
    each = draw(st.integers(1, 5) | st.integers(1, 700))
    spatial = draw(st.integers(1, 3))
    taps = draw(st.lists(st.integers(1, 7), min_size=spatial, max_size=spatial))
    dilation = draw(st.integers(1, 2))
    extra = st.integers(0, 60 if spatial < 3 else 12)
    positions = [dilation * (n - 1) + 1 + draw(extra) for n in taps]
    return Convolution(
        draw(st.sampled_from((FORWARD, INPUT, WEIGHTS))),
        draw(st.sampled_from((FLOAT, HALF, BFLOAT16))),
        draw(st.booleans()),
        (draw(st.integers(1, 64)), groups * each, *positions),
        (groups * draw(st.integers(1, 200)), each, *taps),
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(0, 3)),
        dilation=dilation,
    )


@given(of=convolutions())
def test_sizes_follow_from_the_shapes(gpu: Any, of: Convolution) -> None:
    # With one channel, both layouts have the same strides, and cuDNN takes it as channels last.
    taken = of._replace(last=of.last or prod(of.x[2:]) == 1)
    assert workspace(gpu, of) == expected(taken, 132)


# --- no estimate ---------------------------------------------------------------------------------


def counts(gpu: Any) -> tuple[int, list[int]]:
    """Return how many sizes were unknown, and how many estimated, by kind."""
    estimates = (c_uint64 * 4).in_dll(gpu, "memreplay_estimates_of")
    return c_uint64.in_dll(gpu, "memreplay_workspaces").value, list(estimates)


ANY = conv(FORWARD, FLOAT, (2, 16, 9, 9), (8, 16, 3, 3))


def test_estimates_are_counted_by_layout(tmp_path: Path) -> None:
    gpu = load(tmp_path, HOPPER)
    first, second = workspace(gpu, ANY), workspace(gpu, ANY._replace(last=True))
    assert (first > 0, second) == (True, 0)
    assert counts(gpu) == (0, [1, 1, 0, 0])


@pytest.mark.parametrize(
    "card, of",
    [
        ("cuda=13;major=7;minor=5;sms=40", ANY),
        (HOPPER, ANY._replace(kind=DOUBLE)),
    ],
)
def test_convolution_that_was_never_measured_is_unknown(
    tmp_path: Path, card: str, of: Convolution
) -> None:
    gpu = load(tmp_path, card)
    assert workspace(gpu, of) == 0
    assert counts(gpu) == (1, [0, 0, 0, 0])


def test_graph_without_a_convolution_is_unknown(tmp_path: Path) -> None:
    """For example, attention."""
    gpu = load(tmp_path, HOPPER)
    backend = Backend(gpu)
    graph, operation = backend.make(15), backend.make(13)
    backend.descriptors(graph, 801, operation)
    assert backend.workspace(graph) == 0
    backend.destroy()
    assert counts(gpu) == (1, [0, 0, 0, 0])


def test_fused_operations_do_not_hide_the_convolution(gpu: Any) -> None:
    backend = Backend(gpu)
    plain = backend.graph(ANY)
    expected = backend.workspace(plain)
    operation, bias, fused = backend.make(10), backend.make(13), backend.make(15)
    backend.descriptors(operation, 201, plain)  # takes over everything
    backend.descriptors(fused, 801, operation, bias)
    assert backend.workspace(fused) == expected > 0
    backend.destroy()


# --- measured by the user ------------------------------------------------------------------------


def test_measured_sizes_come_first(tmp_path: Path) -> None:
    table = tmp_path / "workspaces"
    key = (
        "convolution forward float32 first x=2,16,9,9 w=8,16,3,3 stride=1,1 padding=0,0"
        " dilation=1,1"
    )
    table.write_text(f"{key}0\t1 0\n{key}\t123456 0\n")
    os.environ["MEMREPLAY_GPU_WORKSPACES"] = str(table)
    try:
        gpu = load(tmp_path, HOPPER)
        assert workspace(gpu, ANY) == 123456
    finally:
        del os.environ["MEMREPLAY_GPU_WORKSPACES"]
    other = ANY._replace(step=WEIGHTS)
    assert workspace(gpu, other) == expected(other, 132)
    assert counts(gpu) == (0, [1, 0, 0, 1])


def test_missing_measurements_are_no_error(tmp_path: Path) -> None:
    os.environ["MEMREPLAY_GPU_WORKSPACES"] = str(tmp_path / "none")
    try:
        gpu = load(tmp_path, HOPPER)
        assert workspace(gpu, ANY) == expected(ANY, 132)
    finally:
        del os.environ["MEMREPLAY_GPU_WORKSPACES"]
