"""Memory of the simulated cuDNN's recurrent networks, compared with measurements on an H200.

Measured with driver 580.159.04, PyTorch 2.11.0+cu130 and cuDNN 9.19.0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dryrun.library import load, made

RNN, LSTM, GRU = 1, 2, 3
STANDARD, STATIC, SMALL = 0, 1, 3
FLOAT, HALF, BFLOAT16 = 0, 2, 9
BYTES = {FLOAT: 4, HALF: 2, BFLOAT16: 2}
UNPACKED, PACKED = 0, 1
RECURRENT = 2  # in gpu/unknown.h


class Network(NamedTuple):
    mode: int
    input: int
    hidden: int
    layers: int
    directions: int
    batch: int
    time: int
    kind: int = FLOAT
    drops: bool = False
    algorithm: int = STANDARD


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tmp_path_factory.mktemp("recurrent"), "cuda=13;sms=132;threads_sm=2048")


def sizes(
    gpu: Any, it: Network, *, training: bool = True, lengths: list[int] | None = None
) -> tuple[int, int]:
    """Return the bytes of the workspace and the reserve space, asked for as PyTorch does."""
    dropout, network = made(gpu.cudnnCreateDropoutDescriptor), made(gpu.cudnnCreateRNNDescriptor)
    probability, seed = c_float(0.2 * it.drops), c_ulonglong(1)
    assert gpu.cudnnSetDropoutDescriptor(dropout, None, probability, None, c_size_t(), seed) == 0
    shape = (it.input, it.hidden, it.hidden, it.layers)
    how = (it.algorithm, it.mode, 2, it.directions - 1, 0, it.kind, it.kind, 0)
    assert gpu.cudnnSetRNNDescriptor_v8(network, *how, *shape, dropout, 0) == 0
    gpu.cudnnDestroyDropoutDescriptor(dropout)
    data = made(gpu.cudnnCreateRNNDataDescriptor)
    each = (c_int * it.batch)(*(lengths or [it.time] * it.batch))
    layout = PACKED if lengths else UNPACKED
    sequence = (it.kind, layout, it.time, it.batch, it.input, each, None)
    assert gpu.cudnnSetRNNDataDescriptor(data, *sequence) == 0
    found = c_size_t(99), c_size_t(99)
    ask = gpu.cudnnGetRNNTempSpaceSizes
    assert ask(None, network, int(training), data, byref(found[0]), byref(found[1])) == 0
    only = c_size_t(99)
    assert ask(None, network, int(training), data, byref(only), None) == 0
    assert only.value == found[0].value
    gpu.cudnnDestroyRNNDataDescriptor(data)
    gpu.cudnnDestroyRNNDescriptor(network)
    return found[0].value, found[1].value


# The formulas were made to fit networks with batches of 8 and 32.
MEASURED = [
    (Network(LSTM, 512, 1024, 1, 1, 8, 50), 42893632, 8192256),
    (Network(LSTM, 512, 1024, 2, 1, 8, 50, HALF), 50970944, 9011456),
    (Network(LSTM, 256, 512, 2, 1, 32, 50, drops=True), 54067712, 36147456),
    (Network(LSTM, 256, 512, 3, 2, 32, 200, drops=True), 308019712, 448921856),
    (Network(LSTM, 512, 1024, 1, 1, 32, 200, HALF, algorithm=STATIC), 303301120, 65536256),
    (Network(LSTM, 64, 128, 2, 1, 32, 200, drops=True, algorithm=SMALL), 91685376, 36147456),
    (Network(LSTM, 64, 128, 3, 2, 8, 50, HALF, drops=True, algorithm=SMALL), 55531840, 3533056),
    (Network(GRU, 256, 512, 1, 1, 32, 50), 29819392, 19661056),
    (Network(GRU, 256, 512, 1, 1, 8, 50, HALF, algorithm=STATIC), 12837184, 2457856),
    (Network(GRU, 256, 512, 1, 2, 32, 50), 68092416, 39321856),
    (Network(GRU, 256, 512, 2, 1, 8, 200), 42697024, 42598656),
    (Network(GRU, 256, 512, 2, 2, 32, 200, drops=True), 234095104, 342425856),
    (Network(GRU, 64, 128, 3, 1, 8, 200, drops=True, algorithm=SMALL), 42705216, 16435456),
    (Network(GRU, 64, 128, 3, 2, 8, 50, HALF, algorithm=SMALL), 54657344, 4096256),
]


@pytest.mark.parametrize("it, workspace, reserve", MEASURED)
def test_sizes_equal_those_on_a_card(gpu: Any, it: Network, workspace: int, reserve: int) -> None:
    assert sizes(gpu, it) == (workspace, reserve)


def test_network_that_no_formula_was_fitted_to(gpu: Any) -> None:
    """Recorded on the card in a training program, with a batch of 16."""
    it = Network(LSTM, 256, 512, 2, 2, 16, 200, drops=True)
    assert sizes(gpu, it) == (167903616, 144998656)


@pytest.mark.parametrize(
    "it, workspace",
    [
        (Network(GRU, 256, 512, 2, 1, 8, 50), 32014656),
        (Network(GRU, 256, 512, 2, 1, 8, 50, HALF), 24396096),
        (Network(GRU, 256, 512, 3, 1, 8, 50), 46809408),
        (Network(GRU, 256, 512, 3, 1, 8, 50, HALF), 35987776),
    ],
)
def test_all_other_measured_networks_are_close(gpu: Any, it: Network, workspace: int) -> None:
    assert workspace * 0.988 < sizes(gpu, it)[0] < workspace


def test_dropout_needs_a_generator_for_each_thread(gpu: Any) -> None:
    found = c_size_t()
    assert gpu.cudnnDropoutGetStatesSize(None, byref(found)) == 0
    assert found.value == 6488064


# --- oracle --------------------------------------------------------------------------------------

# Vectors of `hidden` elements: for each step, and for each layer and sequence.
STEP = {
    # mode, whether it's small, directions: with one layer, with more
    (LSTM, False, 1): (5.0, 5.0),
    (LSTM, False, 2): (14.0, 14.0),
    (LSTM, True, 1): (21.0, 21.0),
    (LSTM, True, 2): (30.0, 30.0),
    (GRU, False, 1): (4.5, 4.0),
    (GRU, False, 2): (12.0, 12.5),
    (GRU, True, 1): (18.5, 19.5),
    (GRU, True, 2): (24.5, 26.5),
    (RNN, False, 1): (2.0, 2.0),
    (RNN, False, 2): (8.0, 8.0),
    (RNN, True, 1): (18.0, 18.0),
    (RNN, True, 2): (24.0, 24.0),
}
SEQUENCE = {
    (LSTM, False): (10, 24),
    (LSTM, True): (8, 18),
    (GRU, False): (5, 14),
    (GRU, True): (6, 14),
    (RNN, False): (5, 12),
    (RNN, True): (5, 12),
}


def matrices(it: Network) -> Iterator[int]:
    """Yield the number of elements of each matrix of weights."""
    gates = {LSTM: 4, GRU: 3, RNN: 1}[it.mode]
    for layer in range(it.layers):
        for _ in range(it.directions):
            yield gates * it.hidden * (it.hidden * it.directions if layer else it.input)
            yield gates * it.hidden * it.hidden


def expected(it: Network, steps: int) -> tuple[int, int]:
    small = it.algorithm == SMALL or (it.algorithm == STATIC and it.mode == LSTM)
    vectors = STEP[it.mode, small, it.directions][it.layers > 1]
    if it.drops and it.layers > 1 and it.directions == 1 and (it.mode, small) != (GRU, True):
        vectors += 1
    elements = sum(matrices(it))
    elements += int(steps * it.hidden * vectors) + steps * it.input
    elements += it.layers * it.batch * it.hidden * SEQUENCE[it.mode, small][it.directions - 1]
    workspace = 256 + 8 * it.batch + it.layers * it.directions * 8 * 1024**2
    reserve, kept = 256, {LSTM: 5, GRU: 6, RNN: 1}[it.mode]
    for layer in range(it.layers):
        for _ in range(it.directions):
            reserve += kept * steps * it.hidden * BYTES[it.kind]
            if layer:
                reserve += steps * it.hidden * BYTES[it.kind]
    if it.drops:
        reserve += steps * it.hidden * it.directions * (it.layers - 1) * it.directions // 8
    return workspace + elements * BYTES[it.kind], reserve


NETWORKS = st.builds(
    Network,
    mode=st.sampled_from((RNN, LSTM, GRU)),
    input=st.integers(1, 2000),
    hidden=st.integers(1, 2000),
    layers=st.integers(1, 5),
    directions=st.integers(1, 2),
    batch=st.integers(1, 64),
    time=st.integers(1, 500),
    kind=st.sampled_from((FLOAT, HALF, BFLOAT16)),
    drops=st.booleans(),
    algorithm=st.sampled_from((STANDARD, STATIC, SMALL)),
)


@given(it=NETWORKS)
def test_sizes_follow_from_the_shape(gpu: Any, it: Network) -> None:
    assert sizes(gpu, it) == expected(it, it.time * it.batch)
    assert sizes(gpu, it, training=False) == (expected(it, it.time * it.batch)[0], 0)


def test_packed_sequences_have_no_padding(gpu: Any) -> None:
    it = Network(GRU, 24, 40, 2, 1, 3, 10)
    assert sizes(gpu, it, lengths=[10, 7, 1]) == expected(it, 18)


def test_estimates_are_counted_and_their_sizes_kept(tmp_path: Path) -> None:
    gpu = load(tmp_path, "cuda=13")
    workspace, reserve = sizes(gpu, Network(LSTM, 24, 40, 2, 1, 3, 10))
    sizes(gpu, Network(LSTM, 24, 40, 2, 1, 3, 10))
    counts = (c_uint64 * 4).in_dll(gpu, "memreplay_estimates_of")
    assert list(counts) == [0, 0, 6, 0]
    n = c_uint64.in_dll(gpu, "memreplay_n_estimated").value
    found = (c_uint64 * (2 * n)).in_dll(gpu, "memreplay_estimated")
    assert list(found) == [RECURRENT, workspace, RECURRENT, reserve]
    assert c_uint64.in_dll(gpu, "memreplay_workspaces").value == 0


def test_projections_and_doubles_are_estimated_too(gpu: Any) -> None:
    network, data = made(gpu.cudnnCreateRNNDescriptor), made(gpu.cudnnCreateRNNDataDescriptor)
    shape = (0, LSTM, 2, 0, 0, 1, 1, 0, 24, 40, 16, 2, None, 0)
    assert gpu.cudnnSetRNNDescriptor_v8(network, *shape) == 0
    lengths = (c_int * 3)(5, 5, 5)
    assert gpu.cudnnSetRNNDataDescriptor(data, 1, UNPACKED, 5, 3, 24, lengths, None) == 0
    found, ask = c_size_t(), gpu.cudnnGetRNNTempSpaceSizes
    assert ask(None, network, 1, data, byref(found), c_void_p()) == 0
    assert found.value > 2 * 8 * 1024**2 + ctypes.sizeof(ctypes.c_double) * 13440 * 0.9
