"""Asks a remote file for a range of its bytes, and checks that it is still the same file."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Protocol

from memreplay.io.urls import StoreError

# Of a store that gives a whole range at once: what a failure loses at most.
PART = 4 << 20
_PIECE = 1 << 18


class ReplacedError(StoreError):
    """The file is not the one that was opened."""


class RemoteFile(Protocol):
    """A remote file of which any range can be asked for."""

    size: int

    def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to `stop` in order, as they come, by one request.

        May end early. Raises ReplacedError, and what the store's library raises.
        """
        ...


async def remote_file(system: Any, path: str) -> RemoteFile | None:
    """The file of an asynchronous file system of fsspec; None where it gives no ranges."""
    kinds = {base.__module__.partition(".")[0] for base in type(system).__mro__}
    if "s3fs" in kinds:
        return await S3File.opened(system, path)
    if any(base.__name__ == "HTTPFileSystem" for base in type(system).__mro__):
        return await HttpFile.opened(system, path)
    return await AnyFile.opened(system, path)


def tag_of(info: dict[str, Any]) -> str:
    """What tells a version of a file from another one: its ETag, or when it was changed."""
    for name in ("ETag", "etag", "generation", "md5Hash", "content_md5", "checksum"):
        if info.get(name):
            return str(info[name]).strip('"')
    named = ("mtime", "LastModified", "last_modified", "updated", "Last-Modified", "created")
    for name in named:
        if info.get(name):
            when = info[name]
            return when.isoformat() if hasattr(when, "isoformat") else str(when)
    return ""


class S3File:
    """An object of S3, by s3fs's client."""

    def __init__(self, system: Any, path: str, size: int, tag: str) -> None:
        self.size = size
        self._system = system
        self._tag = tag
        bucket, key, version = system.split_path(path)
        self._what = {"Bucket": bucket, "Key": key, **system.req_kw}
        if version:
            self._what["VersionId"] = version

    @classmethod
    async def opened(cls, system: Any, path: str) -> S3File:
        info = await system._info(path, refresh=True)  # not as some listing had it
        _check_is_file(info)
        return cls(system, path, info["size"], tag_of(info))

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        asked = {**self._what, "Range": f"bytes={start}-{stop - 1}"}
        answer = await self._system._call_s3("get_object", **asked)
        body = answer["Body"]
        try:
            _check_answer(
                self._tag, self.size, start, answer.get("ETag"), answer.get("ContentRange")
            )
            while piece := await body.read(_PIECE):
                yield piece
        finally:
            body.close()


class HttpFile:
    """A file of a web server that gives ranges, by fsspec's session."""

    def __init__(self, system: Any, url: str, size: int, tag: str) -> None:
        self.size = size
        self._system = system
        self._url = url
        self._tag = tag

    @classmethod
    async def opened(cls, system: Any, url: str) -> HttpFile | None:
        async with await cls._asked(system, url, 0, 1) as answer:
            if answer.status in (404, 410):
                raise FileNotFoundError(url)
            if answer.status == 416:  # there is not one byte
                return None
            answer.raise_for_status()
            whole = re.fullmatch(r"bytes 0-0/([0-9]+)", answer.headers.get("Content-Range", ""))
            # Ranges of what is compressed on its way are of no use; the whole is unpacked.
            if answer.status != 206 or whole is None or _encoding_of(answer):
                return None
            return cls(system, url, int(whole[1]), _tag_of_answer(answer))

    @staticmethod
    async def _asked(system: Any, url: str, start: int, stop: int) -> Any:
        session = await system.set_session()
        options = dict(system.kwargs)
        options["headers"] = {
            **options.get("headers", {}),
            "Range": f"bytes={start}-{stop - 1}",
            "Accept-Encoding": "identity",  # else the bytes are those of something else
        }
        return session.get(system.encode_url(url), **options)

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        async with await self._asked(self._system, self._url, start, stop) as answer:
            if answer.status == 416:
                raise ReplacedError
            answer.raise_for_status()
            if encoding := _encoding_of(answer):
                raise StoreError(
                    f"the server compresses a part of the file ({encoding}), though it was asked"
                    " not to"
                )
            place = answer.headers.get("Content-Range")
            _check_answer(self._tag, self.size, start, _tag_of_answer(answer), place)
            while piece := await answer.content.read(_PIECE):
                yield piece


class AnyFile:
    """A file of any other asynchronous store of fsspec (gs://, abfs://).

    It is asked in parts, each whole, and what it is now after them.
    """

    def __init__(self, system: Any, path: str, size: int, tag: str) -> None:
        self.size = size
        self._system = system
        self._path = path
        self._tag = tag

    @classmethod
    async def opened(cls, system: Any, path: str) -> AnyFile | None:
        info = await cls._now(system, path)
        _check_is_file(info)
        size = info.get("size")
        return cls(system, path, size, tag_of(info)) if isinstance(size, int) else None

    @staticmethod
    async def _now(system: Any, path: str) -> dict[str, Any]:
        system.invalidate_cache(path)
        info: dict[str, Any] = await system._info(path)
        return info

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        for at in range(start, stop, PART):
            end = min(at + PART, stop)
            piece = await self._system._cat_file(self._path, start=at, end=end)
            info = await self._now(self._system, self._path)
            if (info.get("size"), tag_of(info)) != (self.size, self._tag):
                raise ReplacedError
            yield piece
            if len(piece) < end - at:
                return


def _tag_of_answer(answer: Any) -> str:
    # By `get`, for which a header's name may be in small letters, too.
    return tag_of({name: answer.headers.get(name) for name in ("ETag", "Last-Modified")})


def _encoding_of(answer: Any) -> str:
    """How an answer is encoded on its way; empty where it is not."""
    said = str(answer.headers.get("Content-Encoding", "")).strip()
    return "" if said.lower() == "identity" else said


def _check_is_file(info: dict[str, Any]) -> None:
    if info.get("type") == "directory":
        raise IsADirectoryError


def _check_answer(was: str, size: int, start: int, tag: str | None, place: str | None) -> None:
    """Raises ReplacedError if an answer is not of the file that was opened."""
    found = re.fullmatch(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)", place or "")
    if found is None or int(found[1]) != start:
        raise StoreError("the server ignores which part of the file it is asked for")
    if found[2] not in ("*", str(size)) or (was and tag and tag.strip('"') != was):
        raise ReplacedError
