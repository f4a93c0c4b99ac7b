"""Recognize URLs, open their file systems, and convert stores' errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memreplay.errors import MemreplayError, MissingExtraError

# A scheme has at least two letters, because the C in `C://snap.pkl` is a drive. `::` chains file
# systems, as in simplecache::s3://bucket/key.
_URL = r"([A-Za-z][A-Za-z0-9+.-]+)(::|://)"
# URLs that can contain a password before the `@` or a signature after the `?`. In other URLs, `:`
# before `@` also means a password (s3://key:secret@bucket), except in git URLs
# (github://organization:repository@branch).
_SECRETIVE = (
    r"(?<![A-Za-z0-9+.-])(?:(https?|s?ftp|ssh|smb)://(?:[^/]*@)?([^?#]*)(?:[?#].*)?"
    r"|(?!git)([A-Za-z][A-Za-z0-9+.-]+)://[^/@:]*:[^/]*@)"
)
_SECRETIVE_IN_TEXT = (
    r"(?<![A-Za-z0-9+.-])(?:(https?|s?ftp|ssh|smb)://(?:[^/\s]*@)?([^?#\s]*)(?:[?#][^\s'\")>]*)?"
    r"|(?!git)([A-Za-z][A-Za-z0-9+.-]+)://[^/@:\s]*:[^/\s]*@)"
)
# the memreplay extra that installs the package fsspec needs
_EXTRAS = {"s3": "s3", "s3a": "s3"}
# HTTP status codes of temporary errors
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))


def is_url(name: str) -> bool:
    """Return whether `name` is a URL, rather than an existing local file or a path with a drive
    letter.
    """
    return ":" in name and re.match(_URL, name) is not None and not os.path.lexists(name)


def without_secrets(url: str) -> str:
    """Return `url` without user, password and signature."""
    return re.sub(_SECRETIVE, _public, url)


def _public(found: re.Match[str]) -> str:
    scheme, rest, other = found.groups()
    return f"{other}://" if other else f"{scheme}://{rest}"


def system_of(url: str) -> tuple[Any, str]:
    """Return a URL's fsspec file system, and the path in it.

    Raises MissingExtraError if fsspec, or the package it needs for this kind of URL, is not
    installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError("reading a URL needs fsspec", "remote") from None
    try:
        system, path = url_to_fs(url)
    except ImportError as error:  # s3fs, gcsfs and so on: each kind of store has its own package
        scheme = url.partition(":")[0]
        needs = f"reading {scheme}:// needs another package ({error})"
        raise MissingExtraError(needs, _EXTRAS.get(scheme, "")) from None
    return system, path


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Convert exceptions from store libraries to OSError with a one-line message without
    secrets.
    """
    try:
        yield
    except FileNotFoundError as error:
        # fsspec also raises this for servers that refuse the request or can't be reached.
        words = _server_message(error.__cause__)
        if not words:
            raise
        raise OSError(words) from error
    except PermissionError as error:
        # An error with an errno is about a local file (file://), and its message is good enough.
        if error.errno is not None:
            raise
        raise OSError(error_line(error)) from error
    except (StoreError, IsADirectoryError, MemreplayError, MemoryError):
        raise
    except Exception as error:
        raise OSError(error_line(error)) from error


class StoreError(OSError):
    """The store failed, or the file was replaced. `str()` gives a complete one-line message."""


def error_line(error: BaseException) -> str:
    """Return any exception's message in one line, without secrets."""
    words = _server_message(error)
    if not words:
        words = _first_line(error)
    return re.sub(_SECRETIVE_IN_TEXT, _public, words)


def status_of(error: BaseException | None) -> int | None:
    """Return the HTTP status code behind an exception; None if there is none."""
    for _ in range(4):  # follow the chain of causes
        if error is None:
            return None
        answer = getattr(error, "response", None)  # botocore
        if isinstance(answer, dict):
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:  # aiohttp, azure and gcsfs
            # aiohttp sets `code` itself if a response is incomplete
            is_cut = type(error).__module__.startswith("aiohttp")
            names = ("status", "status_code") if is_cut else ("status", "status_code", "code")
            named = (getattr(error, name, None) for name in names)
            status = next((said for said in named if isinstance(said, int)), None)
        if isinstance(status, int) and 200 < status < 600:
            return status
        error = error.__cause__
    return None


def may_pass(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    if _is_timeout(error):
        return True
    status = status_of(error)
    if status is not None:
        return status in PASSING
    lasting = (
        *(FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, StoreError),
        *(ValueError, TypeError, LookupError, AttributeError, ImportError, MemoryError),
    )
    is_refused = _lacks_credentials(error) or type(error).__name__ == "ParamValidationError"
    return not isinstance(error, lasting) and not is_refused


def is_unreachable(error: BaseException | None) -> bool:
    """Return whether the connection itself failed, because the host name is wrong or nothing is
    listening.
    """
    while error is not None:
        name = type(error).__name__
        if isinstance(error, ConnectionRefusedError) or name in (
            "gaierror",
            "ClientConnectorError",
            "ClientConnectorDNSError",
            "EndpointConnectionError",
        ):
            return True
        error = error.__cause__
    return False


def _is_timeout(error: BaseException) -> bool:
    from asyncio import TimeoutError as TimeoutOfLoop  # a separate class in Python 3.10

    return isinstance(error, (TimeoutError, TimeoutOfLoop))


def _lacks_credentials(error: BaseException) -> bool:
    return "Credentials" in type(error).__name__  # botocore and google.auth


def _server_message(error: BaseException | None) -> str:
    """Return the reason that the server gave; empty if the reason is only that the file doesn't
    exist.
    """
    if error is None:
        return ""
    if _lacks_credentials(error) and not isinstance(error, FileNotFoundError):
        return (
            "no credentials for this store: log in, or set them in the environment as its tools"
            f" expect them ({_first_line(error)})"
        )
    status = status_of(error)
    if status is not None and status not in (404, 410):
        said = str(getattr(error, "message", "") or "").strip()
        if not said and not isinstance(getattr(error, "status", None), int):
            said = f"({_first_line(error)})"
        return f"the server says {status} {said}".rstrip()
    if isinstance(error, PermissionError):
        return f"the store refuses: {_first_line(error)}"
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        host = getattr(error, "host", None)
        reason = _first_line(error)
        return f"cannot reach {host}: {reason}" if host else str(reason)
    return ""


def _first_line(error: BaseException) -> str:
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
