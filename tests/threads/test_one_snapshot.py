"""If sixteen threads run all queries on one snapshot whose caches are empty, all get the same
results.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.snapshot.model import MEASURES
from tests.threads.asking import THREADS, answers, at_once, questions


@pytest.fixture(scope="session")
def alone(file: Path) -> dict[str, Any]:
    """Return a single thread's results, using a separate snapshot for each query."""
    every = questions()
    return {name: answers(mr.open(file), [name])[name] for name in every}


def test_all_threads_get_the_same_results_in_any_order_of_queries(
    file: Path, alone: dict[str, Any]
) -> None:
    names = sorted(alone)
    snap = mr.open(file)
    orders = [random.Random(seed).sample(names, len(names)) for seed in range(THREADS)]
    for found in at_once([partial(answers, snap, order) for order in orders]):
        wrong = [name for name in names if found[name] != alone[name]]
        assert not wrong


@pytest.mark.parametrize("name", sorted(questions()))
def test_all_threads_get_the_same_result_if_all_run_the_same_query_first(name: str) -> None:
    """The snapshot's caches are empty when the threads start."""
    file = Path(__file__).resolve().parents[2] / "tests/data/recorded_gpt.pkl.gz"
    expected = answers(mr.open(file), [name])
    snap = mr.open(file)
    for found in at_once([partial(answers, snap, [name])] * THREADS):
        assert found == expected


def test_cached_values_are_shared(file: Path) -> None:
    """All threads share one replay and one of each measure and array, because one per thread would
    multiply memory.
    """
    snap = mr.open(file)

    def asked() -> list[int]:
        replay = snap.replay()
        found: list[object] = [snap.events, snap.stacks.offsets, snap.code, replay]
        found += [replay.blocks, replay.holding, replay.reserved, vars(replay.recorded)]
        found += [replay.recorded.own, replay.classes("pool"), replay.classes("stream")]
        for name in MEASURES:
            usage = replay.measure(name)
            found += [vars(usage), usage.column, usage.series]
        return [id(one) for one in found]

    first, *others = at_once([asked] * THREADS)
    assert all(one == first for one in others)


def test_measures_can_be_released_during_queries(file: Path, alone: dict[str, Any]) -> None:
    snap = mr.open(file)
    names = [f"usage {name}" for name in MEASURES]

    def let_go() -> dict[str, Any]:
        for _ in range(20):
            snap.__exit__(None, None, None)
            for name in MEASURES:
                snap.replay().measure(name).release()
            snap.replay().forget_classes()
            snap.replay().forget_holding()
        return answers(snap, names)

    work = [partial(answers, snap, names)] * (THREADS - 2) + [let_go] * 2
    for found in at_once(work):
        assert found == {name: alone[name] for name in names}


def test_threads_can_simulate_the_same_replay(file: Path) -> None:
    """The simulations are the first queries on the snapshot."""
    texts = ["", "expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4"]
    expected = [mr.open(file).replay().simulate(text).outcome for text in texts]
    replay = mr.open(file).replay()
    work = [lambda text=text: replay.simulate(text).outcome for text in texts * 4]
    assert at_once(work) == expected * 4


def test_all_threads_get_the_same_strings_and_frames(file: Path) -> None:
    """Each string and frame is decoded only once, so all threads get the same object."""
    snap = mr.open(file)

    def read() -> tuple[list[str | None], list[mr.Frame]]:
        texts = [snap.text(i) for i in range(snap.native.n_strings)]
        return texts, [snap.frame(i) for i in range(len(snap.frames))]

    (texts, frames), *others = at_once([read] * THREADS)
    for their_texts, their_frames in others:
        assert all(mine is theirs for mine, theirs in zip(texts, their_texts, strict=True))
        assert all(mine is theirs for mine, theirs in zip(frames, their_frames, strict=True))


def test_columns_can_be_read_while_others_are_created(file: Path) -> None:
    snap = mr.open(file)
    replay = snap.replay()

    def summed() -> list[int]:
        return [int(np.sum(replay.measure(name).series)) for name in MEASURES for _ in range(3)]

    first, *others = at_once([summed] * THREADS)
    assert all(one == first for one in others)
