"""Fixtures: an object store, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pytest

from tests.faulty_proxy import Proxy, proxy_of
from tests.object_store import ObjectStore, object_store


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    with object_store() as started:
        yield started


@pytest.fixture
def proxy(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Start a proxy of the store, used by every s3:// URL."""
    with proxy_of((store.host, store.port)) as started:
        monkeypatch.setitem(fsspec.config.conf, "s3", store.options(started.url))
        yield started
