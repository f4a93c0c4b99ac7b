"""No string in a file has an effect in any output. Every command runs in every format, with hostile
strings everywhere in a snapshot and in its name. The output is judged by parsers that know nothing
about memreplay.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memreplay.analysis.groups.ways import WAYS
from memreplay.commands.app import app
from memreplay.commands.shared.declaring import Value
from memreplay.commands.shared.listed import COMMANDS
from memreplay.workers import pool
from tests import judging
from tests.commanding import command_runner
from tests.examples import examples
from tests.hostile import PIECES, file_name, hostile_snapshot, several_texts, texts
from tests.judging import Judge

pytestmark = pytest.mark.slow  # runs each command many times

# Each format's judge. A format without a judge fails the test.
FORMATS: dict[str, Judge] = {
    "text": judging.plain,
    "txt": judging.plain,
    "markdown": judging.markdown,
    "json": judging.as_json,
    "ndjson": judging.ndjson,
    "csv": judging.comma_separated,
    "github": judging.github,
    "junit": judging.junit,
    "sarif": judging.sarif,
    "png": judging.png,
    "svg": judging.svg,
    "html": judging.page,
    "perfetto": judging.perfetto,
    "chrome": judging.utf8_json,
    "speedscope": judging.as_json,
    "collapsed": judging.collapsed,
    "pprof": judging.pprof,
    "memory-timeline": judging.as_json,
    "parquet": judging.parquet,
    "arrow": judging.arrow,
    "pickle": judging.pickled,
}
# For commands without --format.
PLAIN: dict[str, Judge] = {"view": judging.page}
# These commands show nothing from a file, or are tested below or with a real program.
APART = {"explore", "mcp", "dryrun", "record", "help", "completion"}

PICTURES = ("png", "svg")
INTO_FILES = ("view", "export")
# Further arguments for some formats, and for every command with one of these options.
ALSO: dict[str, list[str]] = {
    "memory-timeline": ["--device", "0"],
    "collapsed": ["--device", "0"],  # otherwise each line begins with a device
}
ALWAYS: dict[str, list[str]] = {"--config none": [], "--workers": ["1"]}
# Hostile file names, which appear at the start of lines and in titles.
NAMES = ("::stop-commands::evil\x1b[31m", "@evil ##[group]\n::error::<b>")
ODD = PIECES[1::2] + PIECES[::2]

ENV = {"COLUMNS": "100", "NO_COLOR": "1", "FORCE_COLOR": None, "GITHUB_STEP_SUMMARY": None}
QUERIES = (
    "select * from flat",
    'select name as "::error::evil" from annotations',
    "select function, file, line from frames",
)
# Further options, so that each string is shown somewhere.
MORE: dict[str, list[list[str]]] = {
    "peak": [
        [],
        ["--tree"],
        ["--rules"],
        ["--peaks", "2", "--all-frames"],
        *(["--by", one] for one in WAYS),
    ],
    "at": [
        ["peak", "--list"],
        ["--annotations"],
        ["end", "--all-frames"],
        *(["12", "--by", one] for one in WAYS),
    ],
    "timeline": [[], ["--by", "stack"], ["--by", "category"], ["--by", "module"]],
    "allocations": [[], ["--by", "file"], ["--by", "module", "--temporary", "3"]],
    "diff": [[], ["--unchanged", "--all-frames"], ["--by", "function"], ["--by", "module"]],
    "gate": [
        ["--max-peak", "1B"],
        ["--max-growth", "1%", "--max-growth-bytes", "1B", "--base"],
        [
            "--forbid",
            "leaks",
            "--forbid",
            "oom",
            "--max-fragmentation",
            "0%",
            "--max-reserved",
            "1B",
        ],
        ["--max-peak", "1TiB", "--allow-untrusted"],
    ],
    "leaks": [[], ["--by", "function"], ["--by", "file"]],
    "fragmentation": [[], ["--map"], ["--segments"], ["--by", "file"]],
    "oom": [[], ["--oom", "0", "--all-frames"]],
    "simulate": [["--search", "settings"], ["--set", "expandable_segments:True"]],
    "plan": [["--fit", "24GiB"], ["--fit", "1MiB", "--all"]],
    "watch": [["--until", "now", "--interval", "0.01"]],
}


def commands() -> dict[str, click.Command]:
    """Return all commands."""
    context = click.Context(app)
    found = {name: app.get_command(context, name) for name in app.list_commands(context)}
    return {name: one for name, one in found.items() if one is not None}


def formats(command: click.Command) -> list[str]:
    """Return the values of a command's --format."""
    for one in command.params:
        if "--format" in one.opts:
            if isinstance(one.type, Value):
                return [*one.type.field.opt.among()]
            assert isinstance(one.type, click.Choice)
            return [str(choice) for choice in one.type.choices]
    return []


def has(command: click.Command, option: str) -> bool:
    return any(option in one.opts for one in command.params)


class Files:
    """A folder of snapshots full of hostile strings: two from one program, and ranks."""

    def __init__(self, folder: Path, words: list[str], name: str) -> None:
        self.folder, self.words = folder, words
        # File names are relative, because otherwise a path would precede the string at the start of
        # a line.
        self.snap = Path(f"{file_name(name)}.pkl")
        self.other = Path(f"{file_name('o' + name)}.pkl")
        self.run = Path(file_name(f"r{name}"))
        self.out = Path("out")
        self.run.mkdir()
        for path, scale in ((self.snap, 1), (self.other, 2)):
            path.write_bytes(pickle.dumps(hostile_snapshot(words, scale=scale)))
        for rank in range(2):
            path = self.run / f"{file_name(name)}_rank{rank}.pkl"
            path.write_bytes(pickle.dumps(hostile_snapshot(words, scale=1 + rank)))
        (self.run / f"{file_name(name)}_rank2.pkl").write_bytes(b"broken")

    def arguments(self, name: str, command: click.Command) -> list[list[str]]:
        """Return the arguments of a command."""
        snap, other, run = map(os.fspath, (self.snap, self.other, self.run))
        given = {
            "base": [snap],
            "new": [other],
            "sources": [run],
            "folders": [run],
            "file": [snap],
            "files": [snap],
            "when": [],
            "watched": [run],
            "words": [snap],
        }
        if name == "sql":
            return [[snap], *([snap, query] for query in QUERIES)]
        found = [
            word
            for one in command.params
            if isinstance(one, click.Argument)
            for word in given[str(one.name)]
        ]
        several = [[run], [snap, other]] if name == "gate" else []
        several += [[run, run]] if name == "diff" else []
        return [found, *several]


@contextmanager
def files_of(words: list[str], name: str) -> Iterator[Files]:
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield Files(Path(folder), words, name)
        finally:
            os.chdir(before)


def run(arguments: list[str], **env: str | None) -> Any:
    """Run a command; check its exit code and judge its stderr."""
    result = command_runner().invoke(app, arguments, env={**ENV, **env})
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    judging.plain(result.stderr_bytes)
    return result


def calls(name: str, files: Files, *, pictures: bool = True) -> Iterator[tuple[list[str], str]]:
    """Yield (arguments, format) for each call. The format is "" if the command has only one."""
    command = EVERY[name]
    for kind, named in enumerate(files.arguments(name, command)):
        # A few calls are enough for slow commands, which start processes or draw pictures.
        for number, more in enumerate(MORE.get(name, [[]])[: 1 if kind else None]):
            asked = [*more, os.fspath(files.other)] if more[-1:] == ["--base"] else more
            for fmt in formats(command) or [""]:
                if fmt in PICTURES and (not pictures or number > 1):
                    continue
                if kind and name == "gate" and fmt not in ("text", "markdown", "github"):
                    continue
                said = [name, *named, *asked, *ALSO.get(fmt, [])]
                for option, value in ALWAYS.items():
                    if has(command, option):
                        said += [option, *value]
                yield [*said, "--format", fmt] if fmt else said, fmt


def judged(said: list[str], fmt: str, files: Files) -> bool:
    """Check a call's output; return whether there was any."""
    name = said[0]
    # The output of watch is one object per line, as it's written.
    judge = FORMATS["ndjson" if name == "watch" and fmt == "json" else fmt] if fmt else PLAIN[name]
    shutil.rmtree(files.out, ignore_errors=True)
    files.out.unlink(missing_ok=True)
    if name in INTO_FILES or fmt in PICTURES:
        run([*said, "--output", os.fspath(files.out), "--force"])
        written = list(files.out.iterdir() if files.out.is_dir() else [files.out])
        for path in written:
            if path.exists():
                judge(path.read_bytes())
        return files.out.exists()
    result = run(said)
    if result.stdout_bytes:
        judge(result.stdout_bytes)
    if fmt == "text":
        judging.coloured(run(said, FORCE_COLOR="1", NO_COLOR=None).stdout_bytes)
    return bool(result.stdout_bytes)


EVERY = {name: command for name, command in commands().items() if name not in APART}


def test_every_command_and_format_is_checked() -> None:
    assert set(COMMANDS) >= APART
    for name, command in EVERY.items():
        assert formats(command) or name in PLAIN, f"{name}: how is what it writes judged?"
        for fmt in formats(command):
            assert fmt in FORMATS, f"{name} --format {fmt}: how is it judged?"


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in this process, which gives the same output in a tenth of the time."""
    monkeypatch.setattr(pool, "is_possible", lambda: False)


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize("name", EVERY)
def test_hostile_strings_have_no_effect(name: str) -> None:
    """Each hostile string is at the start of some field at least once."""
    wrote: dict[str, bool] = {}
    # A snapshot has room for only half of the strings.
    for half in range(2):
        words = [f"{one} {other}" for one, other in zip(PIECES[half::2], ODD, strict=False)]
        with files_of(words, NAMES[half]) as files:
            for said, fmt in calls(name, files, pictures=not half):
                wrote[fmt] = judged(said, fmt, files) or wrote.get(fmt, False)
    assert all(wrote.values()), f"{name} has written nothing: {wrote}"


@pytest.mark.parametrize("half", range(2))
def test_hostile_strings_in_a_base_have_no_effect(half: int) -> None:
    words = [f"{one} {other}" for one, other in zip(PIECES[half::2], ODD, strict=False)]
    with files_of(words, NAMES[half]) as files:
        (file,) = next(iter(files.arguments("peak", EVERY["peak"])))
        out = os.fspath(files.out)
        saved = run(["gate", file, "--save-base", out, "--force", "--allow-untrusted"])
        assert saved.exit_code == 0
        judging.as_json(files.out.read_bytes())


@settings(max_examples=examples(40))
@given(
    words=several_texts(),
    name=texts,
    command=st.sampled_from(sorted(EVERY)),
    data=st.data(),
)
def test_hostile_strings_in_any_order_have_no_effect(
    words: list[str], name: str, command: str, data: st.DataObject
) -> None:
    with files_of(words, name) as files:
        said, fmt = data.draw(st.sampled_from(list(calls(command, files))))
        judged(said, fmt, files)
