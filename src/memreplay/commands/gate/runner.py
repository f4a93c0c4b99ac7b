"""Read the CI runner's environment, which says where the code is and where to write a summary."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

SUMMARY = "GITHUB_STEP_SUMMARY"
WORKSPACE = "GITHUB_WORKSPACE"
MOST_PARTS = 64  # maximum number of path components
MOST_SUMMARY = 1 << 20  # bytes; GitHub doesn't show longer summaries at all
CUT = "\n\nThe rest is too long for a step summary.\n"


def repository_paths() -> Callable[[str], str | None]:
    """Return a function that maps a recorded file to its path in the repository, or None.

    The repository is $GITHUB_WORKSPACE, or the working folder. A file recorded elsewhere (on
    another machine, in a container) is matched by the longest suffix of its path that exists in the
    repository.
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
    """Keep the paragraphs that fit, and add a note that text was cut. Return "" if none fits."""
    if len(text) <= room:
        return text
    end = text.rfind(b"\n\n", 0, max(0, room - len(CUT) + 2))
    return b"" if end < 0 else text[:end] + CUT.encode()


def append_summary(markdown: Callable[[], str]) -> None:
    """Append `markdown()` to the file named by $GITHUB_STEP_SUMMARY, if set.

    If the file can't be written, print an error, but don't change the exit code. Long text is cut
    between paragraphs or tables.
    """
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
