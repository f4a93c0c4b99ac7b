"""Tests of dryrun/ranks.py: which ranks run, and what a launcher would set for them."""

from __future__ import annotations

import pytest

from memreplay.dryrun.ranks import (
    Launched,
    Ranks,
    distinct,
    launched,
    parse_ranks,
    ranks_of,
)
from memreplay.errors import UsageError

PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize(
    "text, want",
    [("0", (0,)), ("37,0", (0, 37)), ("2-4, 3,9", (2, 3, 4, 9)), ("511", (511,))],
)
def test_ranks_are_parsed(text: str, want: tuple[int, ...]) -> None:
    assert parse_ranks(text) == want


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "doesn't name ranks"),
        ("all", "doesn't name ranks"),
        ("-1", "doesn't name ranks"),
        ("0,,1", "doesn't name ranks"),
        ("3-1", "isn't a range of at most 64 ranks"),
        ("0-64", "isn't a range of at most 64 ranks"),
        ("0-40,50-90", "82 ranks are too many at once: at most 64"),
    ],
)
def test_other_texts_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_ranks(text)


@pytest.mark.parametrize(
    "command, want",
    [
        (
            "torchrun --nnodes 64 --nproc-per-node 8 train.py --lr 1",
            Launched((PYTHON, "-u", "train.py", "--lr", "1"), 64, 8, elastic=True),
        ),
        (
            "/bin/torchrun --nnodes=1:4 --nproc_per_node=2 --standalone -m pkg.train -x",
            Launched((PYTHON, "-u", "-m", "pkg.train", "-x"), 4, 2, elastic=True),
        ),
        (
            "python -u -m torch.distributed.run --rdzv-backend c10d --nproc-per-node 4 -- x.py",
            Launched((PYTHON, "-u", "x.py"), 1, 4, elastic=True),
        ),
        (
            "torchrun --no-python ./train",
            Launched(("./train",), 1, 1, elastic=True),
        ),
        (
            "python train.py -m torch.distributed.run",
            Launched(
                ("python", "train.py", "-m", "torch.distributed.run"), None, None, elastic=False
            ),
        ),
        (
            "python -m pytest tests",
            Launched(("python", "-m", "pytest", "tests"), None, None, elastic=False),
        ),
    ],
)
def test_launchers_are_left_out(command: str, want: Launched) -> None:
    assert launched(command.split(), PYTHON) == want


@pytest.mark.parametrize(
    "command, words",
    [
        ("accelerate launch train.py", "--rank doesn't work with accelerate: give it torchrun"),
        ("mpirun -n 4 python x.py", "--rank doesn't work with mpirun"),
        ("torchrun --nproc-per-node 8", "torchrun has no program to run"),
        ("torchrun --nproc-per-node gpu x.py", "--rank needs a number for --nproc-per-node"),
        ("torchrun --nnodes 0 x.py", "--rank needs a number for --nnodes, not '0'"),
        ("torchrun --run-path x.py", "--run-path"),
    ],
)
def test_other_launchers_are_refused(command: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        launched(command.split(), PYTHON)


def test_size_comes_from_the_option_or_the_launcher() -> None:
    eight = Launched(("x",), 4, 8, elastic=True)
    assert ranks_of(eight, None, (31,), None) == Ranks(32, (31,), 8, elastic=True)
    assert ranks_of(eight, 512, (0, 37), None) == Ranks(512, (0, 37), 8, elastic=True)
    plain = Launched(("x",), None, None, elastic=False)
    assert ranks_of(plain, 512, (0,), None).per_node == 8
    assert ranks_of(plain, 512, (0,), 4).per_node == 4
    assert ranks_of(plain, 2, (0,), None).per_node == 2
    with pytest.raises(UsageError, match=r"^--rank needs the number of all ranks: --world-size N$"):
        ranks_of(plain, None, (0,), None)
    with pytest.raises(UsageError, match=r"^--rank 32: with 32 ranks, the last is 31$"):
        ranks_of(eight, None, (0, 32), None)


def test_a_rank_gets_the_variables_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    ranks = Ranks(20, (0, 17), 8, elastic=False)
    found = ranks.environment(17)
    assert found["MEMREPLAY_DRYRUN_RANKS"] == "0,17/20"
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_PORT")
    assert [found[name] for name in names] == ["17", "20", "1", "4", "2", "29500"]
    assert not any(name.startswith("TORCHELASTIC") for name in found)
    found = ranks._replace(elastic=True).environment(0)
    assert (found["LOCAL_WORLD_SIZE"], found["OMP_NUM_THREADS"]) == ("8", "1")
    assert found["TORCHELASTIC_RUN_ID"]


def test_distinct_ranks_share_a_group_with_the_first() -> None:
    shards, stages, parts = list(range(0, 512, 8)), [0, 2, 4, 6], [0, 1]
    everyone = list(range(512))
    assert distinct([everyone, shards, stages, parts], 512) == (0, 1, 2, 4, 6, 8, 256, 504)
    assert distinct([everyone], 512) == (0, 1, 256, 511)
    assert distinct([], 4) == (0, 1, 2, 3)
    assert distinct([[0]], 1) == (0,)
