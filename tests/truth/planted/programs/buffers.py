"""Lists, buffers and caches: some fill up eventually, others never do."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import torch

from tests.truth import stock
from tests.truth.planted.programs.parts import KIB, Trained, batch, kib, numbers
from tests.truth.planted.truth import planted, steps


@planted()
def replay_buffer() -> None:
    """A buffer of 300 entries that replaces one entry per step."""
    buffer = collections.deque(torch.randn(128, 128, device="cuda") for _ in range(300))
    train = Trained()
    for _ in steps(60):
        buffer.popleft()
        buffer.append(torch.randn(128, 128, device="cuda"))
        train(torch.stack([buffer[7 * j] for j in range(8)]))


@planted()
def replay_buffer_maxlen() -> None:
    """A replay buffer in a deque, which drops its oldest entry when a new one is added."""
    buffer = collections.deque((kib(64) for _ in range(200)), maxlen=200)
    train = Trained()
    for _ in steps(60):
        buffer.append(kib(64))
        train(batch())


@planted()
def replay_buffer_in_bursts() -> None:
    """Replaces eight entries of two tensors each in every fourth step."""
    made = numbers()
    buffer = [(kib(16), kib(4)) for _ in range(256)]
    train = Trained()
    for i in steps(80):
        if i % 4 == 3:
            for _ in range(8):
                buffer[made.randrange(256)] = (kib(16), kib(4))
        train(batch())


@planted()
def replay_buffer_of_many_sizes() -> None:
    """Keeps the last 100 episodes, each of 1 to 64 KiB."""
    made = numbers(1)
    buffer = collections.deque((kib(made.randint(1, 64)) for _ in range(100)), maxlen=100)
    train = Trained()
    for _ in steps(80):
        buffer.append(kib(made.randint(1, 64)))
        train(batch())


@planted()
def replay_buffer_fills() -> None:
    """Fills up in the first half of the steps, and replaces its entries from then on."""
    buffer: collections.deque[Any] = collections.deque(maxlen=30)
    train = Trained()
    for _ in steps(80):
        buffer.append(kib(64))
        train(batch())


@planted({"LEAKS": 8 * KIB})
def replay_buffer_and_a_leak() -> None:
    """Replaces entries of 64 KiB, and keeps 8 KiB more each step."""
    buffer = collections.deque((kib(64) for _ in range(200)), maxlen=200)
    kept = []
    train = Trained()
    for _ in steps(60):
        buffer.append(kib(64))
        kept.append(kib(8))  # LEAKS
        train(batch())


@planted({"KEPT": 64 * KIB})
def history_kept() -> None:
    """Keeps a tensor from each step."""
    history = []
    train = Trained()
    for _ in steps(60):
        train(batch())
        history.append(kib(64))  # KEPT


@planted(categories=True)
def nothing_kept() -> None:
    """Trains, and keeps nothing."""
    train = Trained()
    for i in steps(40):
        train(batch())
        if i == 20:
            stock.take(train.net, optimizers=train.opt)


@planted()
def results_for_data() -> None:
    """A list of results grows while a list of data shrinks by the same amount."""
    data = [kib(32) for _ in range(100)]
    results = []
    train = Trained()
    for _ in steps(60):
        data.pop()
        train(batch())
        results.append(kib(32))


@planted()
def results_for_data_in_parts() -> None:
    """A list of data shrinks while two lists of results grow, from two lines."""
    data = [kib(32) for _ in range(100)]
    firsts, seconds = [], []
    train = Trained()
    for _ in steps(60):
        data.pop()
        firsts.append(kib(24))
        train(batch())
        seconds.append(kib(8))


@planted({"KEPT": 48 * KIB})
def results_larger_than_data() -> None:
    """Uses up 16 KiB of data per step, and keeps 64 KiB of results for it: a leak of 48 KiB."""
    data = [kib(16) for _ in range(100)]
    results = []
    train = Trained()
    for _ in steps(60):
        data.pop()
        train(batch())
        results.append(kib(64))  # KEPT


@planted()
def data_used_up() -> None:
    """Frees its data, piece by piece."""
    data = [kib(64) for _ in range(80)]
    train = Trained()
    for _ in steps(60):
        data.pop()
        train(batch())


@planted()
def cache_fills() -> None:
    """A cache with 15 different keys."""
    cache: dict[int, Any] = {}
    train = Trained()
    for i in steps(60):
        if i % 15 not in cache:
            cache[i % 15] = kib(128)
        train(batch())


@planted()
def cache_fills_at_random() -> None:
    """Caches a mask for each of 12 lengths, as they occur."""
    made = numbers(2)
    cache: dict[int, Any] = {}
    train = Trained()
    for _ in steps(100):
        length = made.randrange(12)
        if length not in cache:
            cache[length] = kib(16 + length)
        train(batch())


@planted()
def cache_of_recent() -> None:
    """functools.lru_cache keeps the 16 most recently used entries."""
    made = numbers(3)

    @functools.lru_cache(maxsize=16)
    def entry(key: int) -> Any:
        return kib(8 + key % 7)

    train = Trained()
    for _ in steps(100):
        for _ in range(3):
            entry(made.randrange(40))
        train(batch())


@planted({"ENTRY": 8 * KIB})
def cache_without_end() -> None:
    """functools.cache, with a new key in each step."""

    @functools.cache
    def entry(key: int) -> Any:
        return kib(8)  # ENTRY

    train = Trained()
    for i in steps(60):
        entry(i)
        train(batch())


@planted()
def rotary_cache_grows_early() -> None:
    """A longer table replaces the old one in each of the first 12 steps."""
    table = kib(4)
    train = Trained()
    for i in steps(60):
        if i < 12:
            table = kib(4 * (i + 2))
        train(batch())
    del table


@planted()
def vocabulary_doubles() -> None:
    """A table's capacity doubles now and then."""
    table = kib(16)
    train = Trained()
    for i in steps(70):
        if i in (4, 10, 20, 40):
            table = torch.cat([table, table])
        train(batch())


@planted()
def tensor_pool() -> None:
    """Takes tensors from a list of free ones, and allocates a tensor if the list is empty."""
    made = numbers(4)
    free: list[Any] = []
    used: list[Any] = []
    train = Trained()
    for _ in steps(80):
        used += [free.pop() if free else kib(32) for _ in range(made.randrange(1, 5))]
        while len(used) > 6:
            free.append(used.pop(0))
        train(batch())


@planted()
def metrics_reset() -> None:
    """Collects the losses from 20 steps, then frees them."""
    losses = []
    train = Trained()
    for i in steps(100):
        losses.append(train(batch()).detach())
        if i % 20 == 19:
            losses.clear()


@planted()
def rollouts() -> None:
    """Collects ten rollouts, trains on them, and frees them."""
    held: list[Any] = []
    train = Trained()
    for _ in steps(60):
        held += [kib(8) for _ in range(10)]
        train(batch())
        held.clear()


@planted()
def prefetched() -> None:
    """Loads three batches of varying length ahead of their steps."""
    made = numbers(5)
    ready = collections.deque(batch(made.randint(16, 96)) for _ in range(3))
    train = Trained()
    for _ in steps(60):
        ready.append(batch(made.randint(16, 96)))
        train(ready.popleft())


@planted()
def best_state() -> None:
    """Copies the weights every tenth step, replacing the previous copy."""
    best: Any = None
    train = Trained()
    for i in steps(80):
        train(batch())
        if i % 10 == 9:
            best = {k: v.clone() for k, v in train.net.state_dict().items()}
    del best


@planted({"COPY": lambda i: 132_096 * (i % 8 == 7)})
def states_kept() -> None:
    """Copies the weights every eighth step, and keeps all copies."""
    states = []
    train = Trained()
    for i in steps(96):
        train(batch())
        if i % 8 == 7:
            states.append({k: v.clone() for k, v in train.net.state_dict().items()})  # COPY


@planted()
def adapters_swapped() -> None:
    """Every third step loads another of five adapters and unloads the previous one."""
    made = numbers(6)
    held = {0: kib(256)}
    train = Trained()
    for i in steps(80):
        if i % 3 == 2:
            held.clear()
            held[made.randrange(5)] = kib(256)
        train(batch())


@planted()
def two_buffers_in_turn() -> None:
    """Each step replaces one of two buffers."""
    held = [kib(100), kib(100)]
    train = Trained()
    for i in steps(60):
        held[i % 2] = kib(100)
        train(batch())


@planted()
def gradients_of_ten_steps() -> None:
    """Keeps the last ten gradients, as L-BFGS does."""
    history: collections.deque[Any] = collections.deque(maxlen=10)
    train = Trained()
    for _ in steps(60):
        train(batch())
        history.append(torch.cat([p.grad.flatten() for p in train.net.parameters()]))


def grown_entry(entries: int, first: int, each: int) -> Callable[[int], int]:
    """Return how much a buffer grows at a step: its new entry minus the one it drops."""

    def grew(i: int) -> int:
        return first + each * i - (first + each * (i - entries) if i >= entries else 0)

    return grew


@planted({"ENTRY": grown_entry(10, 16 << 10, 4 << 10)})
def bounded_buffer_of_growing_entries() -> None:
    """A deque of the last ten results, each larger than the previous one."""
    train, buffer = Trained(), collections.deque[Any](maxlen=10)
    for i in steps(60):
        buffer.append(kib(16 + 4 * i))  # ENTRY
        train(batch())


@planted({"ENTRY": grown_entry(20, 64 << 10, 4 << 10)})
def bounded_buffer_that_fills_late() -> None:
    """A deque with more entries, so that it only fills up in the middle of the recording."""
    train, buffer = Trained(), collections.deque[Any](maxlen=20)
    for i in steps(60):
        buffer.append(kib(64 + 4 * i))  # ENTRY
        train(batch())
