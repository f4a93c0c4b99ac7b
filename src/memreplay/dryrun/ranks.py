"""Which ranks of a distributed program run, and how a launcher would start them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from memreplay.errors import UsageError

MOST_RANKS = 1 << 20
MOST_THAT_RUN = 64
# torchrun's options without a value. All others have one.
_FLAGS = frozenset(
    (
        *("--standalone", "--no-python", "--module", "-m"),
        *("--run-path", "--use-env", "--virtual-local-rank"),
    )
)
_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
_OTHERS = ("accelerate", "deepspeed", "mpirun", "mpiexec", "srun")
# Ranks on a node if nothing says how many.
_PER_NODE = 8
DISTINCT = "distinct"
# `distinct` runs all ranks of a group that isn't larger than this.
_FEW = 8


class Ranks(NamedTuple):
    """The ranks that run, of all ranks."""

    size: int
    """Number of all ranks."""
    ranks: tuple[int, ...]
    """Those that run."""
    per_node: int
    """Ranks on a node. Each uses one of its cards."""
    elastic: bool
    """Whether torchrun would start them."""

    def environment(self, rank: int) -> dict[str, str]:
        """Return the variables that a launcher sets for a rank."""
        node, local = divmod(rank, self.per_node)
        found = {
            "RANK": rank,
            "WORLD_SIZE": self.size,
            "LOCAL_RANK": local,
            "LOCAL_WORLD_SIZE": min(self.per_node, self.size - node * self.per_node),
            "GROUP_RANK": node,
            "GROUP_WORLD_SIZE": -(-self.size // self.per_node),
            "NODE_RANK": node,
        }
        text = {name: str(value) for name, value in found.items()}
        if self.elastic:
            text |= {
                "ROLE_RANK": str(rank),
                "ROLE_NAME": "default",
                "ROLE_WORLD_SIZE": str(self.size),
                "TORCHELASTIC_RESTART_COUNT": "0",
                "TORCHELASTIC_MAX_RESTARTS": "0",
                "TORCHELASTIC_RUN_ID": "none",
                "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            }
            if self.per_node > 1:
                text["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
        return {
            "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"),
            "MASTER_PORT": os.environ.get("MASTER_PORT", "29500"),
            **text,
            "MEMREPLAY_DRYRUN_RANKS": f"{','.join(map(str, self.ranks))}/{self.size}",
            # NCCL's monitor would poll a store that's written in Python.
            "TORCH_NCCL_ENABLE_MONITORING": "0",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
        }


class Launched(NamedTuple):
    """What a launcher was asked to run."""

    command: tuple[str, ...]
    """The program with its arguments, without the launcher."""
    nodes: int | None
    """None if not given."""
    per_node: int | None
    """Processes on a node; None if not given."""
    elastic: bool


def parse_ranks(text: str) -> tuple[int, ...]:
    """Parse ranks such as `0,37` or `0-3`. Raises UsageError."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
        if match is None:
            raise UsageError(f"{text!r} doesn't name ranks; give them like 0,37 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST_THAT_RUN:
            raise UsageError(f"{part.strip()!r} isn't a range of at most {MOST_THAT_RUN} ranks")
        found.update(range(first, last + 1))
    if len(found) > MOST_THAT_RUN:
        raise UsageError(f"{len(found)} ranks are too many at once: at most {MOST_THAT_RUN}")
    return tuple(sorted(found))


def launched(command: Sequence[str], python: str) -> Launched:
    """Return what a command runs, without a launcher that would start all ranks.

    `python`: the command's interpreter. Raises UsageError for a launcher that isn't supported.
    """
    name = os.path.basename(command[0])
    words = list(command[1:])
    if name in _OTHERS:
        raise UsageError(
            f"--rank doesn't work with {name}: give it torchrun or the program itself"
            " (python train.py)"
        )
    if name == "torchrun":
        return _of_torchrun(words, python)
    for i, word in enumerate(words):
        if word == "-m" and words[i + 1 : i + 2] and words[i + 1] in _TORCHRUN:
            return _of_torchrun(words[i + 2 :], python)
        if not word.startswith("-"):
            break
    return Launched(tuple(command), None, None, elastic=False)


def _of_torchrun(words: Sequence[str], python: str) -> Launched:
    values: dict[str, str] = {}
    i = 0
    while words[i : i + 1] != ["--"] and words[i : i + 1] and words[i].startswith("-"):
        name, equals, value = words[i].partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        if name in _FLAGS or equals:
            i += 1
        else:
            value = words[i + 1] if i + 1 < len(words) else ""
            i += 2
        values[name] = value
    program = list(words[i + (words[i : i + 1] == ["--"]) :])
    if not program:
        raise UsageError("torchrun has no program to run")
    if not values.keys() & {"--no-python", "--run-path"}:
        module = ["-m"] if values.keys() & {"-m", "--module"} else []
        program = [python, "-u", *module, *program]
    elif "--run-path" in values:
        raise UsageError("--rank doesn't work with torchrun's --run-path")
    nodes = values.get("--nnodes")
    return Launched(
        tuple(program),
        # An elastic job has at least and at most so many nodes; count all of them.
        _number(nodes.rpartition(":")[2], "--nnodes") if nodes else 1,
        _number(values.get("--nproc-per-node", "1"), "--nproc-per-node"),
        elastic=True,
    )


def _number(text: str, option: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_RANKS:
        raise UsageError(f"--rank needs a number for {option}, not {text!r}")
    return int(text)


def distinct(groups: Sequence[Sequence[int]], size: int) -> tuple[int, ...]:
    """Return ranks that may differ: rank 0, and those that share a group with it.

    `groups`: rank 0's groups. They are its mesh's dimensions (pipeline stages, shards …). Of large
    groups, only the first two ranks, the middle and the last are returned.
    """
    smaller = [sorted(one) for one in groups if 1 < len(one) < size] or [list(range(size))]
    found = {0}
    for one in smaller:
        few = len(one) <= _FEW
        found.update(one if few else (*one[:2], one[len(one) // 2], one[-1]))
    return tuple(sorted(found)[:MOST_THAT_RUN])


def ranks_of(
    started: Launched, size: int | None, ranks: tuple[int, ...], gpus: int | None
) -> Ranks:
    """Return the ranks to run. Raises UsageError if they don't exist.

    `size`: number of all ranks; None if the launcher says it. `gpus`: cards on a node.
    """
    if size is None:
        if started.per_node is None:
            raise UsageError("--rank needs the number of all ranks: --world-size N")
        size = (started.nodes or 1) * started.per_node
    per_node = started.per_node or gpus or min(size, _PER_NODE)
    if ranks[-1] >= size:
        raise UsageError(f"--rank {ranks[-1]}: with {size:,} ranks, the last is {size - 1:,}")
    return Ranks(size, ranks, min(per_node, size), started.elastic)
