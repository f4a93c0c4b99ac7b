"""Fixtures for tests of the page that runs memreplay in a browser."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import chromium  # noqa: F401  # a fixture
from tests.browser.tabs import ChromiumTab, url_of
from tests.conftest import ROOT
from tests.web.app import App

BUILT = ROOT / "build" / "web"
SINGLE = BUILT / "memreplay.html"

OpenApp = Callable[..., App]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


def endless(folder: Path) -> Path:
    """Write a small file that takes long to read: a gigabyte of None, each popped again."""
    file = folder / "endless.pkl.gz"
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(b"\x80\x02")
        for _ in range(1000):
            out.write(b"N0" * (1 << 19))
    return file


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; return its address."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Serve the site on this machine; return its address."""
    with serving(BUILT) as address:
        yield f"{address}index.html"


@pytest.fixture(scope="session")
def started(chromium: Any) -> Iterator[OpenApp]:  # noqa: F811
    """Open the page in a tab; fail at the end if it had errors or used the network."""
    if not SINGLE.exists():
        pytest.skip("the page isn't built: ci/web builds it")
    apps: list[App] = []
    contexts: list[Any] = []

    def start(url: str = url_of(SINGLE)) -> App:
        context = chromium.new_context(
            viewport={"width": 1280, "height": 800}, accept_downloads=True
        )
        contexts.append(context)
        app = App(ChromiumTab(context.new_page()), url)
        apps.append(app)
        return app

    yield start
    for context in contexts:
        context.close()
    for app in apps:
        assert app.unexpected() == []


@pytest.fixture(scope="module")
def app(started: OpenApp) -> App:
    """Return the single file, opened as a file, for tests that take turns with it."""
    return started()


@pytest.fixture
def empty(app: App) -> App:
    """Return the page without open files."""
    app.close_all()
    return app


def native(line: str, folder: Path, columns: int) -> str:
    """Return what a command line prints on a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", *line.split()],
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    return (done.stdout + done.stderr).decode()
