"""urls: recognizing URLs and temporary errors, and messages without secrets for other errors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.io.urls import (
    StoreError,
    as_os_errors,
    error_line,
    is_unreachable,
    is_url,
    may_pass,
    status_of,
    without_secrets,
)
from tests import build


def pickled() -> bytes:
    return build.dump(build.SnapshotBuilder().alloc(0x1000, 64).build())


@pytest.mark.parametrize(
    "name, expected",
    [
        ("s3://bucket/snap.pkl", True),
        ("https://host/snap.pkl", True),
        ("memory://snap.pkl", True),
        ("simplecache::s3://bucket/snap.pkl", True),
        ("snap.pkl", False),
        ("./s3/snap.pkl", False),
        (r"C:\snaps\snap.pkl", False),
        ("C:/snaps/snap.pkl", False),
        ("C://snaps/snap.pkl", False),
        ("snap:1.pkl", False),
        ("-", False),
        ("", False),
    ],
)
def test_url_is_recognized_by_its_scheme(name: str, expected: bool) -> None:
    assert is_url(name) is expected


@pytest.mark.skipif(os.name == "nt", reason="no such file names")
def test_local_file_is_not_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory:").mkdir()
    (tmp_path / "memory:" / "snap.pkl").write_bytes(pickled())
    assert mr.open("memory://snap.pkl").file_bytes == len(pickled())


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://ana:secret@host/snap.pkl?signature=1#2", "https://host/snap.pkl"),
        ("simplecache::https://host/a@b.pkl?key=1", "simplecache::https://host/a@b.pkl"),
        ("sftp://ana:secret@host/snap.pkl", "sftp://host/snap.pkl"),
        ("s3://bucket/a?b.pkl", "s3://bucket/a?b.pkl"),
        ("github://org:repo@main/snap.pkl", "github://org:repo@main/snap.pkl"),
        ("https://ana:sec@ret@host/snap.pkl", "https://host/snap.pkl"),
        ("https://host/snap@2.pkl", "https://host/snap@2.pkl"),
        ("s3://key:secret@bucket/snap.pkl", "s3://bucket/snap.pkl"),
        ("simplecache::s3://key:secret@bucket/a", "simplecache::s3://bucket/a"),
        ("abfs://box@account.host/a:b@c.pkl", "abfs://box@account.host/a:b@c.pkl"),
    ],
)
def test_reports_show_no_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


class AnsweredError(Exception):
    """An error with the attributes of aiohttp's (`status`), azure's (`status_code`), gcsfs's
    (`code`) and botocore's errors.
    """

    def __init__(self, message: str = "", /, **known: Any) -> None:
        super().__init__(message)
        vars(self).update(known)


class NoCredentialsError(Exception):
    """botocore's name."""


def botos(status: int) -> AnsweredError:
    return AnsweredError(response={"ResponseMetadata": {"HTTPStatusCode": status}})


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error, status, passes",
    [
        (AnsweredError(status=503), 503, True),
        (AnsweredError(status_code=429), 429, True),
        (AnsweredError(code=404), 404, False),
        (AnsweredError(code="AccessDenied"), None, True),
        (botos(500), 500, True),
        (botos(403), 403, False),
        (caused(OSError(16, "slow down"), botos(503)), 503, True),
        (caused(FileNotFoundError("x"), AnsweredError(status=502)), 502, True),
        (caused(TimeoutError("x"), botos(400)), 400, True),  # S3's RequestTimeout
        (asyncio.TimeoutError(), None, True),
        (ConnectionResetError(), None, True),
        (EOFError(), None, True),
        (FileNotFoundError(), None, False),
        (PermissionError(), None, False),
        (NoCredentialsError(), None, False),
        (StoreError("x"), None, False),
        (KeyError("x"), None, False),
    ],
)
def test_only_temporary_errors_are_retried(
    error: Exception, status: int | None, passes: bool
) -> None:
    assert (status_of(error), may_pass(error)) == (status, passes)


def test_refused_connection_means_an_unreachable_server() -> None:
    assert is_unreachable(caused(FileNotFoundError(), ConnectionRefusedError()))
    assert not is_unreachable(ConnectionResetError())
    assert not is_unreachable(None)


@pytest.mark.parametrize(
    "error, words",
    [
        (
            ValueError("cannot get http://ana:pw@host/x.pkl?sig=1 'https://h/y?key=2'\nmore"),
            "cannot get http://host/x.pkl 'https://h/y'",
        ),
        (AnsweredError(status=503, message="Busy"), "the server says 503 Busy"),
        (caused(OSError(16, "Slow down."), botos(503)), "the server says 503 (Slow down.)"),
        (PermissionError("no right"), "the store refuses: no right"),
        (
            NoCredentialsError("Unable to locate credentials"),
            (
                "no credentials for this store: log in, or set them in the environment as its tools"
                " expect them (Unable to locate credentials)"
            ),
        ),
        (KeyError(), "KeyError"),
    ],
)
def test_error_is_worded_in_one_line(error: Exception, words: str) -> None:
    assert error_line(error) == words
    with pytest.raises(OSError) as raised, as_os_errors():  # noqa: PT011 - its words follow
        raise error
    assert str(raised.value) == words


def test_local_errors_are_unchanged() -> None:
    for error in (
        PermissionError(13, "Permission denied"),
        FileNotFoundError(2, "No such file"),
        IsADirectoryError(21, "Is a directory"),
        mr.MissingExtraError("x"),
        MemoryError(),
    ):
        with pytest.raises(type(error)) as raised, as_os_errors():
            raise error
        assert raised.value is error
