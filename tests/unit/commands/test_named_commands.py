"""Commands named in messages, help and reports work."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.listed import COMMANDS
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB
from tests.build import Snapshot, SnapshotBuilder
from tests.conftest import ROOT

SOURCE = ROOT / "src/memreplay"
NAMED = re.compile(r"\bmemreplay ([a-z]+)\b([^;:()|]*)")
FILE = re.compile(r"[A-Z]+/?|\S+\.\w+")
CODE = (("train", "train.py", 5),)


@cache
def command_of(name: str) -> click.Command | None:
    return app.get_command(click.Context(app), name)


def options(name: str) -> dict[str, click.Parameter]:
    command = command_of(name)
    return {flag: one for one in (command.params if command else ()) for flag in one.opts}


def arguments(name: str, rest: str) -> list[str]:
    """Return the command's words, without the rest of the sentence."""
    known, found, value_follows = options(name), list[str](), False
    for word in rest.split():
        bare = word.rstrip(".,'\"`")
        is_option = bare.startswith("--")
        if not (is_option or value_follows or FILE.fullmatch(bare) or bare.isdecimal()):
            break
        found.append(bare)
        option = known.get(bare)
        value_follows = isinstance(option, click.Option) and not option.is_flag
        if bare != word:
            break
    return found


def wrong(text: str) -> Iterator[str]:
    """Return the errors of all commands that a string names."""
    for name, rest in NAMED.findall(" ".join(text.split())):
        given = arguments(name, rest)
        command = command_of(name)
        line = " ".join(("memreplay", name, *given))
        if command is None:
            if given:  # otherwise it's a sentence: "memreplay reads it"
                yield f"{line}: no such command"
            continue
        try:
            command.make_context(name, list(given))
        except click.MissingParameter:
            pass  # "memreplay gate --save-base makes one"
        except click.UsageError as error:
            if "requires an argument" not in error.format_message():
                yield f"{line}: {error.format_message()}"


def test_wrong_commands_are_found() -> None:
    (one,) = wrong("memreplay segments FILE shows it")
    assert one == "memreplay segments FILE: no such command"
    (one,) = wrong("memreplay at FILE --at 484 shows what held it")
    assert "--at" in one
    (one,) = wrong("memreplay steps FILE 7")
    assert "7" in one
    assert not list(wrong("memreplay at FILE 484 shows what held it; memreplay gate --save-base"))
    assert not list(wrong("memreplay recorded it, and memreplay peak says more"))


def text_of(node: ast.AST) -> str:
    """Return a string literal, with a number in place of each expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "1"


def literals() -> Iterator[tuple[str, str]]:
    """Yield all strings in the source, with their locations."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {id(one) for node in ast.walk(tree) for one in getattr(node, "values", ())}
        for node in ast.walk(tree):
            if isinstance(node, (ast.JoinedStr, ast.Constant)) and id(node) not in parts:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", text_of(node)


def test_commands_in_the_source_work() -> None:
    texts = list(literals())
    assert sum("memreplay at 1 1 shows" in text for _, text in texts)
    assert [f"{where}: {one}" for where, text in texts for one in wrong(text)] == []


def put_together() -> Iterator[str]:
    """Yield the commands that `report` builds by inserting the file name."""
    for name in ("advice", "advice_text"):
        tree = ast.parse((SOURCE / f"commands/report/{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "command":
                yield text_of(node.value).replace("--set 1", "--set garbage_collection_threshold:1")
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "wanted.append":
                assert isinstance(node.args[0], ast.Tuple)
                yield text_of(node.args[0].elts[0]).replace("--fit 1", "--fit 1GiB")


def test_commands_in_advice_work() -> None:
    commands = list(put_together())
    assert {"leaks --by file", "timeline --by category"} < {*commands}
    for one in commands:
        name, _, rest = one.partition(" ")
        assert name in COMMANDS
        assert list(wrong(f"memreplay {name} FILE {rest}")) == []


def freed() -> Snapshot:
    machine = Machine()
    machine.begin_recording()
    block = machine.devices[0].malloc(30 * MIB, stack=CODE)
    machine.devices[0].malloc(3 * MIB, stack=CODE)
    assert block is not None
    machine.devices[0].free(block)
    return machine.dump()[0]


def ring() -> Snapshot:
    machine = Machine()
    machine.begin_recording()
    for _ in range(400):
        machine.devices[0].malloc(4000, stack=CODE)
    return machine.dump(1000)[0]


def state() -> Snapshot:
    made = SnapshotBuilder()
    made.segment(1 << 30, 200 * MIB, blocks=[made.block(1 << 30, 80 * MIB)])
    return made.build()


def contradictory() -> Snapshot:
    return SnapshotBuilder().alloc(1, 9).free(1, 9).free_completed(1, 9).finish_segments().build()


MADE: tuple[Callable[[], Snapshot], ...] = (freed, ring, state, contradictory)
GIVEN = ("serving_oom", "leaky_training", "recorded_gpt", "transformer_step")
READING = ("summary", "report", "peak", "oom", "leaks", "steps", "timeline", "fragmentation")


@pytest.fixture(params=[*MADE, *GIVEN])
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if isinstance(request.param, str):
        return ROOT / f"tests/data/{request.param}.pkl.gz"
    path = tmp_path / "snap.pickle"
    path.write_bytes(build.dump(request.param()))
    return path


def test_commands_suggested_by_reports_work(snapshot: Path, runner: CliRunner) -> None:
    lines = runner.invoke(app, ["report", str(snapshot)]).stdout.splitlines()
    named = [line.split()[1:] for line in lines if line.lstrip().startswith("memreplay ")]
    assert named
    for command, *_ in named:
        assert command in COMMANDS
    for command in READING:
        done = runner.invoke(app, [command, str(snapshot)], env={"COLUMNS": "300"})
        lines = (done.stdout + done.stderr).splitlines()
        assert [one for line in lines for one in wrong(line)] == []
