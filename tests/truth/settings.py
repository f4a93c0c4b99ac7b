"""Compare allocator settings: whether PyTorch accepts each, and its effect on the allocator.

One PyTorch process gets the strings in settings.txt, one after another (asked_settings.py). It
measures effects that no snapshot shows: the size of a shared segment, and which cached block still
serves a request. The memory fraction is read when an allocator is created, so each string that sets
it runs in a separate process.

Not compared: backend:cudaMallocAsync (PyTorch accepts it only at the start, and it isn't
simulated); line breaks (they're treated like other white space); and older versions of torch
(memreplay follows the newest).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from memreplay.errors import UsageError
from memreplay.snapshot.alloc_conf import (
    MIB,
    AllocatorSettings,
    changed_settings,
    recorded_settings,
    spelled,
)
from tests.truth.compare import Figure

MOST = 1 << 34  # sizes that are actually requested, in bytes


class Texts(NamedTuple):
    """The sections in settings.txt."""

    both: tuple[str, ...]
    """PyTorch and memreplay both accept the string, or both reject it."""
    stricter: tuple[str, ...]
    """Strings that PyTorch accepts and memreplay deliberately rejects."""
    read_alike: tuple[str, ...]
    """Strings that memreplay rejects, except in a snapshot, where it reads them as PyTorch does."""
    from_the_start: tuple[str, ...]
    """Strings that a process starts with."""


def texts() -> Texts:
    """Read the file: each line is a setting; lines that start with ## are section headings."""
    sections: list[list[str]] = []
    lines = (Path(__file__).parent / "settings.txt").read_text(encoding="utf-8").split("\n")[:-1]
    for line in lines:
        if line.startswith("##"):
            sections.append([])
        else:
            sections[-1].append(line)
    return Texts(*(tuple(section) for section in sections))


class ComparedTexts(NamedTuple):
    """The number of strings and of equal figures, and the differences."""

    equal: int
    texts: int
    wrong: dict[str, list[Figure]]


def compare_settings(python: str, environment: dict[str, str]) -> ComparedTexts:
    """Compare memreplay with this Python's torch, run dry."""
    all_texts = texts()
    asked: list[dict[str, Any]] = [
        *(_asked(text) for text in (*all_texts.both, *all_texts.read_alike)),
        *({"text": text} for text in all_texts.stricter),
        *({"text": text, "alone": True} for text in all_texts.from_the_start),
    ]
    lines = "".join(f"{json.dumps(one)}\n" for one in asked)
    told = subprocess.run(
        [python, "-m", "tests.truth.asked_settings"],
        input=lines,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment,
    ).stdout
    equal, wrong = 0, {}
    for one, line in zip(asked, told.splitlines(), strict=True):
        figures = list(_figures(one, json.loads(line)))
        differ = [figure for figure in figures if figure.truth != figure.memreplay]
        equal += len(figures) - len(differ)
        if differ:
            wrong[repr(one["text"])] = differ
    return ComparedTexts(equal, len(asked), wrong)


def _asked(text: str) -> dict[str, Any]:
    """Query PyTorch about the settings."""
    claimed = _taken(text) or recorded_settings({"PYTORCH_CUDA_ALLOC_CONF": text})
    asked: dict[str, Any] = {"text": text}
    if not claimed.expandable and claimed.large_segment_bytes < MOST:
        asked["segment"] = True
        # Sizes stay as requested unless they're rounded up.
        if "max_split_size_mb" in text and "divisions" not in text:
            asked["non_split"] = claimed.max_non_split_bytes
    return asked


def _taken(text: str) -> AllocatorSettings | None:
    try:
        return changed_settings(AllocatorSettings(), text)
    except UsageError:
        return None


def _figures(one: dict[str, Any], told: dict[str, Any]) -> Iterator[Figure]:
    text = one["text"]
    settings = _taken(text)
    refused = text in texts().stricter or text in texts().read_alike
    yield Figure("is taken", told["error"] is None, refused or settings is not None)
    if refused:
        yield Figure("is refused here", True, settings is None)
    if told["error"] is not None:
        return
    recorded = recorded_settings(told["found"])
    if "fraction" in told:
        part = recorded.memory_fraction
        yield Figure("memory fraction", told["fraction"], 1.0 if part is None else part)
    if settings is None:
        settings = recorded
    yield Figure("divisions", recorded.divisions, settings.divisions)
    yield Figure("max_split_bytes", recorded.max_split_bytes, settings.max_split_bytes)
    yield Figure("collect_threshold", recorded.collect_threshold, settings.collect_threshold)
    yield Figure("expandable", recorded.expandable, settings.expandable)
    yield Figure("of its file", recorded, settings)
    yield Figure("spelled", _taken(spelled(settings)), settings)
    if one.get("segment"):
        yield Figure("large_segment_bytes", told["segment"], settings.large_segment_bytes)
    if one.get("non_split") and 0 < settings.max_split_bytes < MOST:
        least = settings.max_non_split_bytes
        yield Figure(f"2 MiB below {least // MIB} MiB more is reused", told["reused"][0], True)
        yield Figure(f"{least // MIB} MiB more is reused", told["reused"][1], False)
