"""Note what a program needed if it failed because something from the network or a file is missing.

sitecustomize.py loads this module when a process of a dry run ends with an exception, whether it
has used torch or not.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

# Modules whose exceptions mean that something couldn't be downloaded, by what it was.
HUB = ("huggingface_hub", "datasets.exceptions")
NETWORK = ("urllib", "urllib3", "requests", "httpx", "httpcore", "http", "aiohttp", "socket", "ssl")
MOST = 200  # characters of a name


def write(path: str) -> None:
    """Write what was missing to a file, if that's why the program failed."""
    error = getattr(sys, "last_value", None)
    found = missing(error) if error is not None else None
    if found is None:
        return
    import json

    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)


def missing(error: BaseException) -> dict[str, str] | None:
    """Return what was missing: its kind (`hub`, `torch.hub`, `network`, `file`, or a file's
    `folder`), and the file's name if that is known.
    """
    errors = list(chain(error))
    if any(belongs(one, HUB) for one in errors):
        return {"kind": "hub", "name": ""}
    if any(belongs(one, NETWORK) for one in errors):
        weights = any(file.endswith("hub.py") and "torch" in file for file in files(errors))
        return {"kind": "torch.hub" if weights else "network", "name": ""}
    for one in errors:
        # A missing program isn't data.
        if isinstance(one, FileNotFoundError) and not any(
            os.path.basename(file) == "subprocess.py" for file in files([one])
        ):
            name = os.fsdecode(one.filename) if one.filename else ""
            there = os.path.isdir(os.path.dirname(os.path.abspath(name)))
            return {"kind": "file" if there else "folder", "name": name[:MOST]}
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        yield one
        one = one.__cause__ or one.__context__


def belongs(error: BaseException, modules: tuple[str, ...]) -> bool:
    """Return whether one of these modules, or a part of it, defines the exception."""
    return any(
        f"{kind.__module__}.".startswith(f"{module}.")
        for kind in type(error).__mro__
        for module in modules
    )


def files(errors: list[BaseException]) -> Iterator[str]:
    """Yield the files of all frames in the exceptions' tracebacks."""
    for error in errors:
        at: TracebackType | None = error.__traceback__
        while at is not None:
            yield at.tb_frame.f_code.co_filename
            at = at.tb_next
