"""A real object store for tests: moto's S3 server, or the server at MEMREPLAY_S3_ENDPOINT.

Set MEMREPLAY_S3_ENDPOINT=http://127.0.0.1:9000 (for MinIO, say), along with the AWS_ACCESS_KEY_ID
and AWS_SECRET_ACCESS_KEY of a user who may create buckets.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # until the test's end closes it, or the test's process dies
"""


@dataclass
class ObjectStore:
    """The store's address, a bucket for the tests, and options for s3fs."""

    host: str
    port: int
    bucket: str
    key: str
    secret: str

    def options(self, url: str | None = None) -> dict[str, Any]:
        """Return options for s3fs; `url` is a proxy's address."""
        return {
            "endpoint_url": url or f"http://{self.host}:{self.port}",
            "key": self.key,
            "secret": self.secret,
        }

    def system(self) -> Any:
        """Return the store itself, without a proxy."""
        import fsspec

        return fsspec.filesystem("s3", **self.options())

    def put(self, name: str, data: bytes, **options: Any) -> None:
        """Create or replace an object; `ACL="public-read"` allows http:// without a signature."""
        self.system().pipe_file(f"{self.bucket}/{name}", data, **options)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start a store with an empty bucket; both are removed at the end."""
    named = os.environ.get("MEMREPLAY_S3_ENDPOINT")
    if named:
        parts = urlsplit(named)
        keys = (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        with _with_bucket(ObjectStore(parts.hostname or "", parts.port or 80, "", *keys)) as store:
            yield store
        return
    # A separate process shares neither locks nor warnings with the tested code.
    server = subprocess.Popen(
        [sys.executable, "-E", "-W", "ignore", "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        port = next(int(line) for line in server.stdout if line.strip().isdigit())
        with _with_bucket(ObjectStore("127.0.0.1", port, "", "testing", "hidden")) as store:
            yield store
    finally:
        server.stdin.close()
        server.stdout.close()
        server.kill()
        server.wait()


@contextmanager
def _with_bucket(store: ObjectStore) -> Iterator[ObjectStore]:
    store.bucket = f"memreplay-{uuid.uuid4().hex[:12]}"
    system = store.system()
    system.mkdir(store.bucket)
    try:
        yield store
    finally:
        system.rm(store.bucket, recursive=True)
