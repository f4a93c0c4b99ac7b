"""Tells URLs from paths, opens the file systems they name, and says what failed there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memreplay.errors import MemreplayError, MissingExtraError

# Two letters at least: `C://snap.pkl` is a drive. `::` chains, as in simplecache::s3://bucket/key.
_URL = r"([A-Za-z][A-Za-z0-9+.-]+)(::|://)"
# Where what stands before an `@` may be a password, and what follows a `?` a signature. Of other
# kinds of URLs what has a `:` before an `@` is taken for one, too (s3://key:secret@bucket), but for
# those of git (github://organisation:repository@branch).
_SECRETIVE = (
    r"(?<![A-Za-z0-9+.-])(?:(https?|s?ftp|ssh|smb)://(?:[^/]*@)?([^?#]*)(?:[?#].*)?"
    r"|(?!git)([A-Za-z][A-Za-z0-9+.-]+)://[^/@:]*:[^/]*@)"
)
_SECRETIVE_IN_TEXT = (
    r"(?<![A-Za-z0-9+.-])(?:(https?|s?ftp|ssh|smb)://(?:[^/\s]*@)?([^?#\s]*)(?:[?#][^\s'\")>]*)?"
    r"|(?!git)([A-Za-z][A-Za-z0-9+.-]+)://[^/@:\s]*:[^/\s]*@)"
)
# Packages that fsspec asks for, and our extra that has them.
_EXTRAS = {"s3": "s3", "s3a": "s3"}
# What a store answers that may be otherwise in a moment.
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))


def is_url(name: str) -> bool:
    """Whether `name` is a URL, and not a local file that exists or a path on a drive."""
    return ":" in name and re.match(_URL, name) is not None and not os.path.lexists(name)


def without_secrets(url: str) -> str:
    """`url` as a report may show it: no user, password or signature."""
    return re.sub(_SECRETIVE, _public, url)


def _public(found: re.Match[str]) -> str:
    scheme, rest, other = found.groups()
    return f"{other}://" if other else f"{scheme}://{rest}"


def system_of(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it.

    Raises MissingExtraError where fsspec, or what it needs for this kind of URL, is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError("reading a URL needs fsspec", "remote") from None
    try:
        system, path = url_to_fs(url)
    except ImportError as error:  # s3fs, gcsfs, …: one package for each kind of store
        scheme = url.partition(":")[0]
        needs = f"reading {scheme}:// needs a package of its own ({error})"
        raise MissingExtraError(needs, _EXTRAS.get(scheme, "")) from None
    return system, path


@contextmanager
def as_os_errors() -> Iterator[None]:
    """What a hundred libraries raise, as OSError with one line and no secrets."""
    try:
        yield
    except FileNotFoundError as error:
        # fsspec says so of a server that refuses, or that is not there, too.
        words = _words_of_server(error.__cause__)
        if not words:
            raise
        raise OSError(words) from error
    except PermissionError as error:
        # As a store says it. Of a file of this machine (file://) the system has said it, by number.
        if error.errno is not None:
            raise
        raise OSError(words_of(error)) from error
    except (StoreError, IsADirectoryError, MemreplayError, MemoryError):
        raise
    except Exception as error:
        raise OSError(words_of(error)) from error


class StoreError(OSError):
    """A store that gave up, or a file that is no longer what it was; `str()` is one clear line."""


def words_of(error: BaseException) -> str:
    """What an error of any library says, in one line without secrets."""
    words = _words_of_server(error)
    if not words:
        words = _first_line(error)
    return re.sub(_SECRETIVE_IN_TEXT, _public, words)


def status_of(error: BaseException | None) -> int | None:
    """What the server answered, by the error that a library made of it; None where it did not."""
    for _ in range(4):  # an error, and what it was made of
        if error is None:
            return None
        answer = getattr(error, "response", None)  # botocore's
        if isinstance(answer, dict):
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:  # aiohttp's, azure's, gcsfs's
            # `code` of aiohttp's is its own opinion of an answer that was cut.
            is_cut = type(error).__module__.startswith("aiohttp")
            names = ("status", "status_code") if is_cut else ("status", "status_code", "code")
            named = (getattr(error, name, None) for name in names)
            status = next((said for said in named if isinstance(said, int)), None)
        if isinstance(status, int) and 200 < status < 600:
            return status
        error = error.__cause__
    return None


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed in a moment."""
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


def never_reached(error: BaseException | None) -> bool:
    """Whether there was no connection at all: another host, or none of that name."""
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
    from asyncio import TimeoutError as TimeoutOfLoop  # not TimeoutError's class in Python 3.10

    return isinstance(error, (TimeoutError, TimeoutOfLoop))


def _lacks_credentials(error: BaseException) -> bool:
    return "Credentials" in type(error).__name__  # botocore's, google.auth's


def _words_of_server(error: BaseException | None) -> str:
    """Why a file could not be had, where it is not that there is none; else empty."""
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
