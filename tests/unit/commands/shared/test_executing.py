"""executing: who reads many files, as options say it."""

from __future__ import annotations

from contextlib import closing

import click
import pytest
from click.testing import CliRunner

from memreplay.commands.shared.declaring import as_command
from memreplay.commands.shared.executing import Workers, executor_of
from memreplay.errors import MemreplayError, UsageError
from memreplay.workers import pool
from memreplay.workers.pool import LocalPool
from memreplay.workers.serial import Serial


@as_command("read", examples=())
def command(workers: Workers) -> int:
    """Read."""
    click.echo(repr(workers))
    return 0


@pytest.mark.parametrize(
    "arguments, workers",
    [
        ("", Workers()),
        ("--workers 8", Workers(8)),
        ("--memory-per-worker 2GiB", Workers(None, 2 << 30)),
        ("--scheduler tcp://head:8786", Workers(scheduler="tcp://head:8786")),
    ],
)
def test_what_was_given(runner: CliRunner, arguments: str, workers: Workers) -> None:
    assert runner.invoke(command, arguments.split()).stdout == f"{workers!r}\n"
    assert workers.asked == bool(arguments)


@pytest.mark.parametrize("number", ["0", "-1", "1025", "many"])
def test_a_number_of_workers(runner: CliRunner, number: str) -> None:
    assert runner.invoke(command, ["--workers", number]).exit_code == 2


def test_a_cluster_has_its_own_workers() -> None:
    for some in ({"workers": 1}, {"memory_per_worker": 1 << 30}):
        with pytest.raises(UsageError, match="a cluster has its own workers"):
            Workers(scheduler="tcp://head:8786", **some)


def test_processes_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "processors", lambda: 4)
    for asked, files, number in ((None, 9, 4), (None, 3, 3), (None, 0, 1), (7, 3, 7)):
        with closing(executor_of(Workers(asked), files)) as found:
            assert isinstance(found, LocalPool)
            assert found.workers == number


def test_a_system_without_a_pool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "is_possible", lambda: False)
    assert isinstance(executor_of(Workers(), 3), Serial)
    assert capsys.readouterr().err == ""
    assert isinstance(executor_of(Workers(2), 3), Serial)
    assert "files are read one after another" in capsys.readouterr().err


def test_a_scheduler_that_is_not_there() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(MemreplayError, match="'head' is no address of a scheduler"):
        executor_of(Workers(scheduler="head"), 1)
