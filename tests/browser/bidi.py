"""Drive an installed Firefox through WebDriver BiDi, because playwright only works with its own
build of Firefox.
"""

from __future__ import annotations

import json
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
# WebDriver key codes, by playwright's key names.
KEYS = {
    "Enter": "\ue007",
    "Tab": "\ue004",
    "Shift": "\ue008",
    "PageUp": "\ue00e",
    "PageDown": "\ue00f",
    "End": "\ue010",
    "Home": "\ue011",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
    "Escape": "\ue00c",
}
EVENTS = ["log.entryAdded", "network.beforeRequestSent", "browsingContext.userPromptOpened"]
# No updates, no start pages, no telemetry.
PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.prefs.recommended": True,
    "toolkit.telemetry.enabled": False,
}


class FirefoxTab:
    """A tab of Firefox."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._last = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.pages: list[str] = []
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=EVENTS)
        tree = self.send("browsingContext.getTree")
        self.context = tree["contexts"][0]["context"]

    def goto(self, url: str) -> None:
        # Firefox doesn't reload the page if only the URL's fragment differs.
        for one in ("about:blank", url):
            self.pages.append(one)
            self.send("browsingContext.navigate", context=self.context, url=one, wait="complete")

    def evaluate(self, function: str, argument: Any = None) -> Any:
        # Results are returned as JSON, because BiDi has its own notation for objects.
        given = {"type": "string", "value": json.dumps(argument)}
        found = self.send(
            "script.callFunction",
            functionDeclaration=f"""async (given) => {{
                const found = await ({function})(JSON.parse(given));
                return found === undefined ? 'null' : JSON.stringify(found);
            }}""",
            arguments=[given],
            target={"context": self.context},
            awaitPromise=True,
        )
        if found["type"] == "exception":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])

    def press(self, key: str) -> None:
        names = [KEYS.get(one, one) for one in (key.split("+") if len(key) > 1 else [key])]
        actions = [{"type": "keyDown", "value": one} for one in names]
        actions += [{"type": "keyUp", "value": one} for one in reversed(names)]
        self.send(
            "input.performActions",
            context=self.context,
            actions=[{"type": "key", "id": "keys", "actions": actions}],
        )

    def resize(self, width: int, height: int) -> None:
        self.send(
            "browsingContext.setViewport",
            context=self.context,
            viewport={"width": width, "height": height},
        )

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command, and handle events until its response arrives."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if told.get("id") == self._last:
                if told["type"] == "error":
                    raise RuntimeError(f"{method}: {told['error']}: {told['message']}")
                return told["result"]
            self._take(told)

    def _take(self, told: dict[str, Any]) -> None:
        said = told.get("params", {})
        if told.get("method") == "network.beforeRequestSent":
            self.requests.append(said["request"]["url"])
        elif told.get("method") == "browsingContext.userPromptOpened":
            self.problems.append(f"dialog: {said['message']}")
        elif told.get("method") == "log.entryAdded" and said["level"] in ("error", "warn"):
            self.problems.append(f"{said['type']}: {said['text']}")


@contextmanager
def firefox(path: str, profile: Path) -> Iterator[FirefoxTab]:
    """Open a tab in a new headless Firefox with a fresh profile."""
    from websockets.sync.client import connect

    lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in PREFERENCES.items())
    (profile / "user.js").write_text("".join(lines))
    command = [path, "--headless", "--remote-debugging-port=0", "--profile", str(profile)]
    process = subprocess.Popen(
        [*command, "--no-remote"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        url = f"{_address(process)}/session"
        with connect(url, max_size=None, open_timeout=PATIENCE_S, proxy=None) as socket:
            yield FirefoxTab(socket)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stderr
        process.stderr.close()


def _address(process: subprocess.Popen[bytes]) -> str:
    """Return the address that Firefox prints."""
    assert process.stderr
    said, until = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if not select.select([process.stderr], [], [], 1)[0]:
            continue
        said += process.stderr.read1()  # type: ignore[attr-defined]
        if found := re.search(rb"WebDriver BiDi listening on (ws://\S+)", said):
            return found[1].decode()
    raise RuntimeError(f"Firefox does not answer: {said.decode(errors='replace')[-500:]}")
