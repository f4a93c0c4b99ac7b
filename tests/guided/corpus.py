"""The saved inputs: one archive per target, each input under its hash."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.seeds import seeds

KEPT = Path(__file__).parent / "kept"
MADE = (2020, 1, 1, 0, 0, 0)  # a fixed date, so that the same inputs give the same archive


def kept(target: str) -> list[bytes]:
    """Read a target's saved inputs."""
    path = KEPT / f"{target}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in sorted(archive.namelist())]


def keep(target: str, inputs: Iterable[bytes]) -> None:
    """Replace a target's saved inputs."""
    KEPT.mkdir(exist_ok=True)
    named = {hashlib.sha256(data).hexdigest()[:16]: data for data in inputs}
    with zipfile.ZipFile(KEPT / f"{target}.zip", "w") as archive:
        for name in sorted(named):
            archive.writestr(zipfile.ZipInfo(name, MADE), named[name], zipfile.ZIP_DEFLATED, 9)


def beginning(target: str) -> list[bytes]:
    """Return the inputs to start from: the saved ones plus the other fuzzer's seeds."""
    found = seeds()
    if target == "text":  # the target adds the opening bracket itself
        return [*kept(target), *(text[1:] for text in found.texts if text[:1] == b"{")]
    return [*kept(target), *found.pickles, *found.texts, *found.broken]


def spread(inputs: Iterable[bytes], folder: Path) -> None:
    """Write each input to its own file, as libFuzzer expects."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
