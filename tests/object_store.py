"""A real object store for tests: moto's server of S3, or one that MEMREPLAY_S3_ENDPOINT names.

MEMREPLAY_S3_ENDPOINT=http://127.0.0.1:9000 (MinIO's, say), with AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY of a user that may make buckets.
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
    """Where it is, a bucket of its own in it, and what s3fs needs to get there."""

    host: str
    port: int
    bucket: str
    key: str
    secret: str

    def options(self, url: str | None = None) -> dict[str, Any]:
        """Of s3fs; `url` is a proxy's."""
        return {
            "endpoint_url": url or f"http://{self.host}:{self.port}",
            "key": self.key,
            "secret": self.secret,
        }

    def system(self) -> Any:
        """The store itself, without a proxy."""
        import fsspec

        return fsspec.filesystem("s3", **self.options())

    def put(self, name: str, data: bytes, **options: Any) -> None:
        """Makes or replaces an object; `ACL="public-read"` for http:// without a signature."""
        self.system().pipe_file(f"{self.bucket}/{name}", data, **options)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A store with an empty bucket; both go at the end."""
    named = os.environ.get("MEMREPLAY_S3_ENDPOINT")
    if named:
        parts = urlsplit(named)
        keys = (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        with _with_bucket(ObjectStore(parts.hostname or "", parts.port or 80, "", *keys)) as store:
            yield store
        return
    # A process of its own: it shares no lock with what is tested, nor its warnings.
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
