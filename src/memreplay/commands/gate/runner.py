"""What the runner of a CI job says by its environment: where the code is, where a summary goes."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

SUMMARY = "GITHUB_STEP_SUMMARY"
WORKSPACE = "GITHUB_WORKSPACE"
MOST_PARTS = 64  # of a path
MOST_SUMMARY = 1 << 20  # bytes that GitHub takes of a step; of a longer summary it shows nothing
CUT = "\n\nThe rest is too long for the summary of a step.\n"


def repository_paths() -> Callable[[str], str | None]:
    """What gives the path, below the repository, of a file that a snapshot names; None where there
    is no such file.

    The repository is $GITHUB_WORKSPACE, else the working folder. A file that lies elsewhere by its
    name (it was recorded on another machine, or in a container) is looked for by the longest end of
    its path that is there.
    """
    root = os.path.realpath(os.environ.get(WORKSPACE) or os.getcwd())
    known: dict[str, str | None] = {}

    def found(path: str) -> str | None:
        if path not in known:
            known[path] = _below(root, path)
        return known[path]

    return found


def _below(root: str, path: str) -> str | None:
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts or ".." in parts or len(parts) > MOST_PARTS or "\0" in path:
        return None
    inside = [part for part in root.replace("\\", "/").split("/") if part]
    if parts[: len(inside)] == inside and len(parts) > len(inside):
        parts = parts[len(inside) :]
    for first in range(len(parts)):
        end = parts[first:]
        try:
            if os.path.isfile(os.path.join(root, *end)):
                return "/".join(end)
        except (OSError, ValueError):
            return None
    return None


def _cut(text: bytes, room: int) -> bytes:
    """As many of the paragraphs, from the first on, as there is room for, and that there are more;
    nothing where there is no room for one."""
    if len(text) <= room:
        return text
    end = text.rfind(b"\n\n", 0, max(0, room - len(CUT) + 2))
    return b"" if end < 0 else text[:end] + CUT.encode()


def append_summary(markdown: Callable[[], str]) -> None:
    """Append `markdown()` to the file that $GITHUB_STEP_SUMMARY names, if it does; that this cannot
    be written to is said, and no more: it does not change what was found. What is too long is cut
    between two paragraphs or tables."""
    path = os.environ.get(SUMMARY)
    if not path:
        return
    text = f"{markdown()}\n".encode("utf-8", "replace")
    try:
        with open(path, "ab") as file:
            file.write(_cut(text, MOST_SUMMARY - file.tell()))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        click.echo(f"memreplay: warning: cannot write the summary (${SUMMARY}): {reason}", err=True)
