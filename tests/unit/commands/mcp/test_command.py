"""`memreplay mcp`: startup errors, and how the process exits."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.errors import install_command
from tests.conftest import ROOT

COMMAND = [sys.executable, "-m", "memreplay", "mcp"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(number, "tools/call", name=tool, arguments=arguments)


class Server:
    """A process of the command, and the lines exchanged with it."""

    def __init__(self, *arguments: str, cwd: Path | None = None) -> None:
        pytest.importorskip("mcp")
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def begin(self) -> dict[str, Any]:
        self.send(INITIALIZE)
        found: dict[str, Any] = self.read()["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return found

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the server's input. Return its exit code and remaining output."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def test_missing_sdk_is_an_error(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    for missing in ("mcp", "mcp_types"):  # mcp_types came with version 2
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, gone=missing: None if name == gone else find(name),
        )
        result = runner.invoke(app, ["mcp"])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "memreplay: error: mcp needs the Model Context Protocol's SDK 2 or later:"
            f" {install_command('mcp')}\n"
        )
        assert runner.invoke(app, ["mcp", "--help"]).exit_code == 0


def test_usage_errors_are_reported(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["mcp", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert result.stderr.endswith("none: no such folder\n")
    (tmp_path / "memreplay.toml").write_text("nonsense = 1")
    result = runner.invoke(app, ["mcp", "--config", str(tmp_path / "memreplay.toml")])
    assert result.exit_code == 2
    assert "unknown key" in result.stderr


def test_terminal_is_rejected(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    from memreplay.commands.mcp import command

    class Terminal:
        """A fake `sys` whose stdin is a terminal."""

        class stdin:  # noqa: N801
            """A terminal."""

            isatty = staticmethod(lambda: True)

    monkeypatch.setattr(command, "sys", Terminal)
    result = runner.invoke(app, ["mcp"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "an agent talks to it over standard input; set it up in the agent (memreplay help mcp)"
        in result.stderr
    )


@pytest.mark.parametrize("arguments", [["mcp", "--help"], ["peak", "--help"], ["mcp", "/none/x"]])
def test_sdk_is_imported_only_to_serve(arguments: list[str]) -> None:
    code = """
import sys
from memreplay.__main__ import main
try:
    main()
except SystemExit:
    pass
heavy = {"mcp", "mcp_types", "pydantic", "anyio", "asyncio", "starlette"} & sys.modules.keys()
sys.exit(f"loaded: {heavy}" if heavy else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_session_ends_at_end_of_input() -> None:
    server = Server(str(ROOT / "examples"))
    told = server.begin()
    assert told["serverInfo"]["name"] == "memreplay"
    assert "check=true" in told["instructions"]
    server.send(call(2, "files"), request(3, "tools/list"))
    answers = {one["id"]: one["result"] for one in (server.read(), server.read())}
    assert "19 snapshots below" in answers[2]["content"][0]["text"]
    assert len(answers[3]["tools"]) > 10
    assert server.end() == (0, b"", b"")


@pytest.mark.slow
def test_default_folder_is_the_current_one(folder: Path) -> None:
    server = Server(cwd=folder)
    server.begin()
    server.send(call(2, "files"))
    text = server.read()["result"]["content"][0]["text"]
    assert text.startswith(f"3 snapshots below {folder.resolve()}\n")
    assert server.end()[0] == 0


@pytest.mark.slow
def test_running_work_does_not_delay_the_exit() -> None:
    server = Server(str(ROOT / "examples"))
    server.begin()
    query = "select count(*) from range(1000000000000)"
    server.send(call(2, "sql", file="leaky_training.pkl.gz", query=query), call(3, "files"))
    assert server.read()["id"] == 3
    code, _, err = server.end()
    assert (code, err) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_the_server_quietly(number: signal.Signals) -> None:
    server = Server(str(ROOT / "examples"))
    server.begin()
    os.kill(server.process.pid, number)
    assert server.process.wait(60) in (-number, 128 + number)
    assert server.process.stderr is not None
    assert server.process.stderr.read() == b""
    server.end()


@pytest.mark.slow
def test_sigterm_stops_a_runaway_request(tmp_path: Path) -> None:
    """A regular expression takes minutes to match a long name, and blocks the interpreter
    meanwhile.
    """
    event = {
        "action": "alloc",
        "addr": 512,
        "size": 512,
        "stream": 0,
        "frames": [{"name": "é" * 200_000, "filename": "a.py", "line": 1}],
    }
    snapshot = {"segments": [], "device_traces": [[event]]}
    (tmp_path / "long.json").write_text(json.dumps(snapshot), encoding="utf-8")
    server = Server(str(tmp_path))
    server.begin()
    server.send(call(2, "peak", file="long.json", include="é*é*é*#"))
    time.sleep(1)
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.process.wait(30) == -signal.SIGTERM
    server.end()


@pytest.mark.slow
def test_server_exits_if_the_agent_disconnects(folder: Path) -> None:
    server = Server(str(folder))
    server.begin()
    assert server.process.stdout is not None
    server.process.stdout.close()
    # The server's input is still open.
    assert server.process.wait(60) == 141
    assert server.process.stderr is not None
    assert server.process.stderr.read() == b""
    for pipe in (server.process.stdin, server.process.stderr):
        assert pipe is not None
        pipe.close()


@pytest.mark.slow
def test_server_survives_invalid_input(folder: Path) -> None:
    server = Server(str(folder))
    server.begin()
    assert server.process.stdin is not None
    server.process.stdin.write(b"nonsense\n\xff\xfe\n{}\n[1]\n")
    server.send(call(2, "files"))
    while (found := server.read()).get("id") != 2:
        pass  # protocol errors
    assert "3 snapshots" in found["result"]["content"][0]["text"]
    assert server.end()[0] == 0
