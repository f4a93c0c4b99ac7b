"""Tests of commands/dryrun/running.py, without running programs (see test_command.py)."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from memreplay.commands.dryrun.result import Verdict
from memreplay.commands.dryrun.running import DryrunOptions, exit_code, setup_of
from memreplay.dryrun.cards import find
from memreplay.errors import UsageError
from tests.unit.commands.dryrun.reports import GIB, report

ASKED = DryrunOptions(program=("python", "x.py"), gpu="L4", stacks="python")


def test_options_set_up_the_machine() -> None:
    setup = setup_of(ASKED)
    assert (setup.card, setup.total_bytes, setup.cards) == (find("L4"), find("L4").bytes, 1)
    assert (setup.stacks, setup.stdout) == ("python", None)
    changes: dict[str, Any] = {
        "total_memory": 5 * GIB,
        "settings": ("a:1",),
        "stacks": "all",
        "max_entries": 9,
        "source": True,
        "timeout": 2.5,
    }
    setup = setup_of(replace(ASKED, as_json=True, gpus=3, **changes))
    assert (setup.total_bytes, setup.cards, setup.settings) == (5 * GIB, 3, "a:1")
    assert (setup.stacks, setup.max_entries, setup.timeout) == ("all", 9, 2.5)
    assert setup.source
    assert setup.stdout == 2  # the program's stdout must not be mixed into the JSON
    with pytest.raises(
        UsageError, match=r"^--total-memory 512\.0 MiB: CUDA itself takes .* MiB on H200$"
    ):
        setup_of(replace(ASKED, gpu="H200", total_memory=GIB // 2))
    with pytest.raises(UsageError, match="unknown card 'H99'"):
        setup_of(replace(ASKED, gpu="H99"))


@pytest.mark.parametrize(
    "program, cards",
    [
        (("torchrun", "--nproc-per-node", "8", "x.py"), 8),
        (("torchrun", "--nproc_per_node=4", "x.py"), 4),
        (("accelerate", "launch", "--num_processes", "2", "x.py"), 2),
        (("torchrun", "--nproc-per-node", "gpu", "x.py"), 1),
        (("torchrun", "--nproc-per-node"), 1),
        (("torchrun", "--nproc-per-node", "100000", "x.py"), 1),
        (("torchrun", "--nproc-per-node=0", "x.py"), 1),
        (("python", "x.py", "8"), 1),
    ],
)
def test_there_are_as_many_cards_as_processes(program: tuple[str, ...], cards: int) -> None:
    assert setup_of(replace(ASKED, program=program)).cards == cards
    assert setup_of(replace(ASKED, program=program, gpus=5)).cards == 5


def test_exit_code_follows_from_the_verdict() -> None:
    codes = {one: exit_code(report(verdict=one)) for one in get_args(Verdict)}
    assert codes == {"fits": 0, "does_not_fit": 1, "over_budget": 1, "not_known": 6}


def test_ranks_come_from_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memreplay.dryrun.python.interpreter", lambda command: "/python")
    launcher = ("torchrun", "--nnodes", "4", "--nproc-per-node", "8", "x.py")
    assert setup_of(ASKED).ranks is None
    setup = setup_of(replace(ASKED, program=launcher, rank="0,9"))
    assert setup.ranks is not None
    assert (setup.ranks.size, setup.ranks.ranks, setup.cards) == (32, (0, 9), 8)
    setup = setup_of(replace(ASKED, world_size=512))
    assert setup.ranks is not None
    assert (setup.ranks.size, setup.ranks.ranks, setup.cards) == (512, (0,), 8)
    setup = setup_of(replace(ASKED, program=launcher, rank="distinct"))
    assert setup.ranks is not None
    assert setup.ranks.ranks == (0,)  # until its groups are known
    with pytest.raises(UsageError, match="--rank needs the number of all ranks"):
        setup_of(replace(ASKED, rank="3"))
