"""Choose which calls fail, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.faults.shim import Fault

# How each group of calls can fail; `on`: all later calls fail too, as on a full disk.
HOWS: dict[str, tuple[tuple[str, bool], ...]] = {
    "open": (("EACCES", False), ("EMFILE", False), ("EINTR", False)),
    "read": (("EIO", False), ("EINTR", False), ("short", False)),
    "write": (
        ("ENOSPC", False),
        ("ENOSPC", True),
        ("EINTR", False),
        ("short", False),
        ("EPIPE", False),
    ),
    "stat": (("EIO", False),),
    "close": (("EIO", False),),
    "rename": (("EACCES", False), ("ENOSPC", True)),
    "unlink": (("EACCES", False),),
    "mkdir": (("EACCES", False), ("ENOSPC", True)),
    "fsync": (("EIO", False), ("ENOSPC", False), ("EINTR", False)),
    "truncate": (("EIO", False),),
    "link": (("EPERM", False),),
    "chmod": (("EPERM", False),),
    "list": (("EACCES", False), ("EMFILE", False)),
    "seek": (("EIO", False),),
    "lock": (("ENOLCK", False), ("EINTR", False)),
    "mmap": (("ENOMEM", False), ("ENOMEM", True)),
    "malloc": (("ENOMEM", False),),  # requested by memreplay's own modules
    "memory": (("ENOMEM", False),),  # requested by any other module
    "thread": (("EAGAIN", False), ("EAGAIN", True)),
    "pipe": (("EMFILE", False),),
    "fork": (("EAGAIN", False),),
}

MEMORY = ("malloc", "memory")


def faults(calls: Mapping[str, int], most: int, most_memory: int) -> Iterator[Fault]:
    """Return a fault for each call and each way it can fail: at most `most` per group and way
    (`most_memory` for memory requests), evenly spread.
    """
    for group, hows in HOWS.items():
        count = calls.get(group, 0)
        for how, on in hows:
            for at in spread(count, most_memory if group in MEMORY else most):
                yield Fault(group, how, at, on)


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` numbers below `count`, including the first and the last."""
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count // 2]
    return [at * (count - 1) // (most - 1) for at in range(most)]
