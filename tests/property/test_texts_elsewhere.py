"""No string in a file has an effect in other places either: step summaries, errors, MCP answers,
notebook values, the explorer's screen.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings

import memreplay as mr
from memreplay.analysis.groups.ways import WAYS
from memreplay.commands.app import app
from memreplay.errors import MemreplayError
from memreplay.snapshot.model import When
from tests import judging
from tests.commanding import command_runner
from tests.examples import examples
from tests.hostile import PIECES, file_name, hostile_snapshot, several_texts, texts
from tests.pickle_ops import Ops

pytestmark = pytest.mark.slow
HALVES = [list(PIECES[::2]), list(PIECES[1::2])]


def opened(words: Sequence[str], scale: int = 1) -> mr.Snapshot:
    return mr.open(pickle.dumps(hostile_snapshot(words, scale=scale)))


# ---- a step's summary ----


@settings(max_examples=examples(10))
@given(words=several_texts(), name=texts)
@example(words=HALVES[0], name="@evil.pkl")
@example(words=HALVES[1], name="# evil")
def test_job_summary_shows_hostile_strings_as_text(words: list[str], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, summary = Path(folder, file_name(name)), Path(folder, "summary.md")
        file.write_bytes(pickle.dumps(hostile_snapshot(words)))
        asked = [
            "gate",
            str(file),
            str(file),
            "--max-peak",
            "1B",
            "--forbid",
            "oom",
            "--forbid",
            "leaks",
        ]
        asked += ["--config", "none", "--workers", "1"]
        env = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true", "CI": "true"}
        result = command_runner().invoke(app, asked, env=env)
        judging.plain(result.stdout_bytes)
        judging.markdown(summary.read_bytes())


# ---- errors ----


def broken_files(text: str) -> Iterator[bytes]:
    """Create files that can't be read and whose errors may quote their contents."""
    word = text.encode("utf-8", "surrogatepass")
    line = word.replace(b"\n", b" ")
    yield bytes(Ops().proto(2).op("GLOBAL", line + b"\n" + line + b"\n").stop())
    yield bytes(Ops().proto(4).string(text).string(text).op("STACK_GLOBAL").stop())
    yield bytes(Ops().op("PERSID", line + b"\n").stop())
    yield bytes(Ops().mark().op("INST", line + b"\n" + line + b"\n").stop())
    yield pickle.dumps({text: text})
    yield pickle.dumps({"segments": [], "device_traces": [[{"action": text, "addr": text}]]})
    yield pickle.dumps({"segments": [{text: 1, "device": text}], "device_traces": []})
    yield json.dumps({"segments": text, "device_traces": [text]}).encode()
    yield ("{" + text).encode("utf-8", "replace")
    yield word
    yield b"#!/bin/sh\n" + word
    for count in (1, 2):
        out = io.BytesIO()
        name = text.replace("\0", "").encode("utf-8", "replace").decode()
        with zipfile.ZipFile(out, "w") as archive:
            for i in range(count):
                archive.writestr(f"{name}{i}", word)
        yield out.getvalue()


@settings(max_examples=examples(30))
@given(text=texts, name=texts)
@example(text="\x1b[31m##[group]\u202eevil", name="\n::error::evil\x1b[31m")
@example(text="os\x9b##vso[task.x]\u2028", name="::stop-commands::evil")
def test_errors_show_hostile_strings_as_text(text: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, file_name(name))
        for data in broken_files(text):
            file.write_bytes(data)
            with pytest.raises(MemreplayError) as raised:
                mr.open(data)
            # This is the message that a program or a notebook shows.
            judging.shown(str(raised.value).replace("\n", ""))
            for command in ("peak", "summary", "export --format txt", "gate"):
                result = command_runner().invoke(app, [*command.split(), str(file)])
                assert isinstance(result.exception, SystemExit | None)
                judging.plain(result.stdout_bytes)
                judging.plain(result.stderr_bytes)


@settings(max_examples=examples(20))
@given(name=texts)
def test_missing_names_on_the_command_line_are_shown_as_text(name: str) -> None:
    """The arguments name files, or things in files, that don't exist."""
    # A command line can contain undecodable bytes, but no lone surrogates.
    name = os.fsdecode(name.replace("\0", "").encode("utf-8", "replace") + b"\xff")
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder, "good.pkl")
        good.write_bytes(pickle.dumps(hostile_snapshot(HALVES[0])))
        for asked in (
            ["peak", f"x{name}"],
            ["gate", f"x{name}", "--max-peak", "1B"],
            ["diff", str(good), f"x{name}"],
            ["fleet", f"x{name}"],
            ["watch", f"x{name}", "--until", "now"],
            ["view", f"x{name}"],
            ["export", str(good), "-o", f"{folder}/x{name}/y.csv"],
            ["at", str(good), f"x{name}"],
            ["at", str(good), f"annotation:x{name}"],
            ["peak", str(good), f"--by=x{name}"],
            ["peak", str(good), f"--only=pool=x{name}"],
            ["peak", str(good), f"--include=x{name}"],
            ["peak", str(good), f"--config=x{name}"],
            ["timeline", str(good), f"--measure=x{name}"],
            ["simulate", str(good), f"--set=x{name}:1"],
            ["sql", str(good), f"select x{name}"],
            ["steps", str(good), f"--step=annotation=x{name}"],
            ["help", f"x{name}"],
            [f"x{name}"],
        ):
            result = command_runner().invoke(app, asked, env={"NO_COLOR": "1"})
            assert isinstance(result.exception, SystemExit | None), asked
            judging.plain(result.stdout_bytes)
            judging.plain(result.stderr_bytes)


# ---- values in a notebook ----


def values(snap: mr.Snapshot, other: mr.Snapshot) -> Iterator[object]:
    """Return values that a cell might end with."""
    yield snap
    replay = snap.replay(snap.devices[0])
    yield replay
    yield replay.measure("requested")
    for way in WAYS:
        yield mr.peak(snap, by=way)
    for name in ("summary", "report", "peak", "allocations", "oom", "steps", "leaks"):
        yield getattr(mr, name)(snap)
    for name in ("modules", "fragmentation", "segments", "timeline", "simulate"):
        yield getattr(mr, name)(snap)
    yield mr.gate(snap, max_peak=1)
    yield mr.at(snap, When(kind="end"))
    yield mr.diff(snap, other)
    for name in ("events", "segments", "blocks", "frames", "annotations", "stacks"):
        yield getattr(snap, name, None)
    for name in ("allocations", "frames", "annotations"):
        yield mr.table(snap, name)


@pytest.mark.parametrize("half", [0, 1])
def test_notebook_values_show_hostile_strings_as_text(half: int) -> None:
    check_values(HALVES[half])


@settings(max_examples=examples(5))
@given(words=several_texts())
def test_notebook_values_show_any_string_as_text(words: list[str]) -> None:
    check_values(words)


def check_values(words: list[str]) -> None:
    for value in values(opened(words), opened(words, 2)):
        # Python's repr of a string is always a single line.
        for line in repr(value).split("\n"):
            judging.shown(line)
        if hasattr(value, "_repr_html_"):
            judging.notebook(value._repr_html_().encode())


# ---- mcp ----


@settings(max_examples=examples(3))
@given(words=several_texts(), name=texts)
@example(words=HALVES[0], name="\x1b[31m")
@example(words=HALVES[1], name="\u202e\n")
def test_mcp_answers_show_hostile_strings_as_text(words: list[str], name: str) -> None:
    pytest.importorskip("mcp")
    from mcp import Client

    from memreplay.analysis.categories.rules import rules_of
    from memreplay.commands.shared.source import Reading
    from memreplay.mcp.allowed import Allowed
    from memreplay.mcp.server import server_of
    from tests.unit.mcp.test_server import calls_of

    async def work(folder: str, file: str) -> None:
        served = server_of(Allowed([folder]), Reading(), rules_of({}, ""))
        async with Client(served, read_timeout_seconds=120) as client:
            asked = [*calls_of(file), *(("peak", {"file": file, "by": way}) for way in WAYS)]
            for tool, given in asked:
                result = await client.call_tool(tool, given)
                for part in result.content:
                    for line in getattr(part, "text", "").split("\n"):
                        judging.shown(line)

    with tempfile.TemporaryDirectory() as folder:
        file = file_name(name).encode("utf-8", "replace").decode() + ".pkl"
        Path(folder, file).write_bytes(pickle.dumps(hostile_snapshot(words)))
        asyncio.run(work(folder, file))


# ---- the explorer ----


@pytest.mark.parametrize("half", [0, 1])
def test_explorer_shows_hostile_strings_as_text(half: int) -> None:
    pytest.importorskip("textual")
    from memreplay.explore.app import Explorer
    from memreplay.explore.explored import Explored
    from memreplay.explore.keys import KEYS
    from memreplay.explore.panes import Pane
    from tests.unit.explore.playing import ASKING, play, screen

    words = HALVES[half]
    explored = Explored(opened(words))
    look = explored.first_look(explored.devices[0] if hasattr(explored, "devices") else 0)
    name = "".join(words[:5])
    screens = Explorer([Pane(explored, look, name, chars="braille")], "braille")

    async def do(pilot: Any) -> None:
        for key in KEYS:
            pressed = key.keys.split(",")[0]
            if pressed not in ASKING:
                await pilot.press(pressed)
                for line in screen(screens):
                    judging.shown(line)

    play(screens, do)
