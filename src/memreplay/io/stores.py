"""Request byte ranges of remote files, and detect whether a file was replaced in the meantime."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Protocol

from memreplay.io.urls import StoreError

# Part size for stores that only return whole ranges. A failure loses at most this much data.
PART = 4 << 20
_PIECE = 1 << 18


class ReplacedError(StoreError):
    """The file was replaced after it was opened."""


class RemoteFile(Protocol):
    """A remote file that supports range requests."""

    size: int

    def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` to `stop` in order, using one request.

        May end early. Raises ReplacedError and the store library's exceptions.
        """
        ...


async def remote_file(system: Any, path: str) -> RemoteFile | None:
    """Return a file on an asynchronous fsspec file system; None if it doesn't support ranges."""
    kinds = {base.__module__.partition(".")[0] for base in type(system).__mro__}
    if "s3fs" in kinds:
        return await S3File.opened(system, path)
    if any(base.__name__ == "HTTPFileSystem" for base in type(system).__mro__):
        return await HttpFile.opened(system, path)
    return await AnyFile.opened(system, path)


def tag_of(info: dict[str, Any]) -> str:
    """Return a file's version: its ETag, or else its modification time."""
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
    """An object in S3, read through s3fs's client, which can stream part of an object."""

    def __init__(self, system: Any, path: str, size: int, tag: str) -> None:
        self.size = size
        self._system = system
        self._tag = tag
        bucket, key, version = system.split_path(path)
        extra = system.s3_additional_kwargs
        # The customer's own encryption key, which the store needs to decrypt the object.
        own_key = {name: extra[name] for name in extra if name.startswith("SSECustomer")}
        self._object = {"Bucket": bucket, "Key": key, **system.req_kw, **own_key}
        if version:
            self._object["VersionId"] = version

    @classmethod
    async def opened(cls, system: Any, path: str) -> S3File:
        info = await system._info(path, refresh=True)  # refresh, because listings may be outdated
        _check_is_file(info)
        return cls(system, path, info["size"], tag_of(info))

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        from botocore.exceptions import ClientError
        from s3fs.errors import translate_boto_error

        await self._system.set_session()
        client = await self._system.get_s3(self._object["Bucket"])
        try:
            answer = await client.get_object(**self._object, Range=f"bytes={start}-{stop - 1}")
        except ClientError as error:
            raise translate_boto_error(error) from error
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
    """A file on a web server with range support, read through fsspec's session."""

    def __init__(self, system: Any, url: str, size: int, tag: str) -> None:
        self.size = size
        self._system = system
        self._url = url
        self._tag = tag

    @classmethod
    async def opened(cls, system: Any, url: str) -> HttpFile | None:
        async with await cls._request(system, url, 0, 1) as answer:
            if answer.status in (404, 410):
                raise FileNotFoundError(url)
            if answer.status == 416:  # the file is empty
                return None
            answer.raise_for_status()
            whole = re.fullmatch(r"bytes 0-0/([0-9]+)", answer.headers.get("Content-Range", ""))
            # Ranges of a compressed transfer can't be used, so such a file is read as one stream.
            if answer.status != 206 or whole is None or _encoding_of(answer):
                return None
            return cls(system, url, int(whole[1]), _tag_of_answer(answer))

    @staticmethod
    async def _request(system: Any, url: str, start: int, stop: int) -> Any:
        session = await system.set_session()
        options = dict(system.kwargs)
        options["headers"] = {
            **options.get("headers", {}),
            "Range": f"bytes={start}-{stop - 1}",
            # Ranges of a compressed transfer would count compressed bytes.
            "Accept-Encoding": "identity",
        }
        return session.get(system.encode_url(url), **options)

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        async with await self._request(self._system, self._url, start, stop) as answer:
            if answer.status == 416:
                raise ReplacedError
            answer.raise_for_status()
            if encoding := _encoding_of(answer):
                raise StoreError(
                    f"the server compresses a range of the file ({encoding}), although the request"
                    " forbids it"
                )
            place = answer.headers.get("Content-Range")
            _check_answer(self._tag, self.size, start, _tag_of_answer(answer), place)
            while piece := await answer.content.read(_PIECE):
                yield piece


class AnyFile:
    """A file in another asynchronous store that fsspec supports (gs://, abfs://).

    The file is read in parts, each returned as a whole. The version is checked after each request.
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
    # `get` ignores case in header names.
    return tag_of({name: answer.headers.get(name) for name in ("ETag", "Last-Modified")})


def _encoding_of(answer: Any) -> str:
    """Return a response's transfer compression; empty if there is none."""
    said = str(answer.headers.get("Content-Encoding", "")).strip()
    return "" if said.lower() == "identity" else said


def _check_is_file(info: dict[str, Any]) -> None:
    if info.get("type") == "directory":
        raise IsADirectoryError


def _check_answer(was: str, size: int, start: int, tag: str | None, place: str | None) -> None:
    """Raise ReplacedError if a response isn't from the file that was opened."""
    found = re.fullmatch(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)", place or "")
    if found is None or int(found[1]) != start:
        raise StoreError("the server ignored the requested range")
    if found[2] not in ("*", str(size)) or (was and tag and tag.strip('"') != was):
        raise ReplacedError
