"""executing: choosing the workers for reading many files."""

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
        ("--workers tcp://head:8786", Workers("tcp://head:8786")),
    ],
)
def test_options_choose_the_workers(runner: CliRunner, arguments: str, workers: Workers) -> None:
    assert runner.invoke(command, arguments.split()).stdout == f"{workers!r}\n"
    assert workers.asked == bool(arguments)


@pytest.mark.parametrize("number", ["0", "-1", "1025", "many"])
def test_invalid_number_of_workers_is_rejected(runner: CliRunner, number: str) -> None:
    assert runner.invoke(command, ["--workers", number]).exit_code == 2


def test_cluster_has_its_own_workers() -> None:
    with pytest.raises(UsageError, match="a cluster has its own workers"):
        Workers("tcp://head:8786", 1 << 30)


def test_number_of_local_processes_depends_on_files_and_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "processors", lambda: 4)
    for asked, files, number in ((None, 9, 4), (None, 3, 3), (None, 0, 1), (7, 3, 7)):
        with closing(executor_of(Workers(asked), files)) as found:
            assert isinstance(found, LocalPool)
            assert found.workers == number


def test_files_are_read_one_by_one_without_process_pools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "is_possible", lambda: False)
    assert isinstance(executor_of(Workers(), 3), Serial)
    assert capsys.readouterr().err == ""
    assert isinstance(executor_of(Workers(2), 3), Serial)
    assert (
        "this system has no process pools, so files are read one by one" in capsys.readouterr().err
    )


def test_invalid_scheduler_address_is_an_error() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(MemreplayError, match="'head' isn't a scheduler address: "):
        executor_of(Workers("head"), 1)
