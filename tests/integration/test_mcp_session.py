"""An agent's session with `memreplay mcp`: it finds the planted leak and why the server ran out.

The agent is a script that knows a folder and nothing of what is in it: it reads the instructions
and the list of tools, picks tools by what their descriptions say, and takes every file, line and
number from the answers. What it may cost is counted as a model would pay for it: the instructions,
the tools, each call's arguments and each answer.

Tokens are the bytes of UTF-8 divided by 3, rounded up, of each piece. Tokenizers of today's models
take 3.5 to 4.5 bytes of such text for a token, so this errs on the side of too many.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.conftest import ROOT

MOST_CALLS = 10
MOST_TOKENS = 6_000
MOST_BYTES = 8_192  # of an answer
VAIN = re.compile("doesn't help|not enough|still fails")  # of advice
PLACE = re.compile(r"(\S+) (\S+\.py):(\d+)")


class Found(NamedTuple):
    """What the agent found out."""

    leak_file: str
    leak: tuple[str, str, int]
    leak_rate: str
    oom_file: str
    cause: str
    asked_by: tuple[str, str, int]
    holder: tuple[str, str, int]
    missing: str
    helps: dict[str, bool]
    verified: bool


class Agent:
    """Asks, and counts what it costs."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls = 0
        self.costs: list[tuple[str, int]] = []

    def pay(self, what: str, text: str) -> None:
        """Count a piece of text."""
        self.costs.append((what, -(-len(text.encode()) // 3)))

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.costs)

    async def begin(self) -> dict[str, str]:
        """The tools' descriptions by name; it remembers the instructions."""
        self.instructions = self.client.instructions or ""
        self.pay("instructions", self.instructions)
        self.calls += 1
        listed = await self.client.list_tools()
        spelled = [
            tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in listed.tools
        ]
        self.pay("tools", json.dumps(spelled, separators=(",", ":")))
        assert listed.next_cursor is None
        return {tool.name: tool.description or "" for tool in listed.tools}

    async def call(self, tool: str, **arguments: object) -> list[str]:
        """The lines of an answer."""
        self.calls += 1
        self.pay(f"{tool}, asked", json.dumps({"name": tool, "arguments": arguments}))
        result = await self.client.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in result.content)
        assert not result.is_error, text
        assert len(text.encode()) <= MOST_BYTES
        self.pay(tool, text)
        return text.splitlines()


def named(tools: dict[str, str], words: str) -> str:
    """The tool whose description has these words."""
    (found,) = [name for name, description in tools.items() if words in description]
    return found


def rows(lines: list[str], title: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this title, by their columns."""
    for number, line in enumerate(lines):
        titles = line.split(" | ")
        if titles[0] == title and len(titles) > 1:
            found = []
            for row in lines[number + 1 :]:
                cells = row.split(" | ")
                if len(cells) != len(titles):
                    break
                found.append(dict(zip(titles, cells, strict=True)))
            return found
    return []


def pairs(lines: list[str]) -> dict[str, str]:
    """What stands as `name: value`."""
    split = (line.partition(": ") for line in lines)
    return {name: value for name, colon, value in split if colon}


def place(words: str) -> tuple[str, str, int]:
    """Function, file and line of the first call in a chain of them."""
    match = PLACE.match(words.partition(" < ")[0])
    assert match, words
    return match[1], match[2], int(match[3])


async def investigate(agent: Agent) -> Found:
    """What a sensible agent would do, one step after the other."""
    tools = await agent.begin()
    # "Begin with files(check=true)", say the instructions.
    match = re.search(r"Begin with (\w+)\((\w+)=true\)", agent.instructions)
    assert match
    found = rows(await agent.call(match[1], **{match[2]: True}), "file")
    (leaking,) = [row["file"] for row in found if re.search(r"leaks: \d", row["found"])]
    (failed,) = [row["file"] for row in found if "memory ran out" in row["found"]]

    lines = await agent.call(named(tools, "holds more and more from step to step"), file=leaking)
    (leak,) = rows(lines, "leaks a step")

    lines = await agent.call(named(tools, "Why a request failed"), file=failed)
    first = rows(lines, "oom")[0]
    said = pairs(lines)
    asked_by = lines[lines.index("asked by, and its callers") + 1]
    holder = rows(lines, "bytes")[0]["allocated at, and its callers"]
    start = lines.index("what would have helped") + 1
    advice = pairs(lines[start : start + 2])
    helps = {name: not VAIN.search(words) for name, words in advice.items()}
    missing = re.search(r"([\d.]+ \w+) missing", said["the driver"])
    assert missing

    # Would it have been enough to hold less there? The run once more, with that code's tensors at
    # a third of their size.
    function, file, line = place(holder)
    lines = await agent.call(
        named(tools, "would it fit?"), file=failed, scale=0.3, include=f"{file}:{line}"
    )
    return Found(
        leaking,
        place(leak["allocated at, and its callers"]),
        leak["leaks a step"],
        failed,
        first["cause"],
        place(asked_by),
        (function, file, line),
        missing[1],
        helps,
        verified="no request fails" in lines[1],
    )


def source_line(path: str, line: int) -> str:
    """A line of a program that lies beside the examples."""
    below = path.removeprefix("/workspace/")
    return (ROOT / "examples" / below).read_text(encoding="utf-8").splitlines()[line - 1].strip()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_finds_the_leak_and_the_cause(
    mode: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Of both ways to begin: the handshake of older clients, and that of the newest."""

    async def session() -> tuple[Found, Agent]:
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "memreplay", "mcp", str(ROOT / "examples")]
        )
        async with Client(stdio_client(started), mode=mode, read_timeout_seconds=120) as client:
            agent = Agent(client)
            return await investigate(agent), agent

    found, agent = asyncio.run(session())

    # The leak: examples/tiny/train.py keeps a tensor of 64 KiB of each step in a list.
    assert found.leak_file == "leaky_training.pkl.gz"
    assert found.leak == ("train_step", "/workspace/tiny/train.py", 44)
    assert source_line(*found.leak[1:]).startswith("self.kept.append(")
    assert found.leak_rate == "64.0 KiB"
    # Memory ran out in examples/chat/server.py: caches that grow by torch.cat pin segments.
    assert found.oom_file == "serving_oom.pkl.gz"
    assert found.cause == "fragmentation"
    assert found.asked_by == ("attention", "/workspace/chat/model.py", 21)
    assert found.holder == ("append", "/workspace/chat/kv_cache.py", 18)
    assert "torch.cat" in source_line(*found.holder[1:])
    assert found.missing == "109.1 MiB"
    assert found.helps == {"expandable_segments": False, "less_live": True}
    assert found.verified

    print(f"\n{agent.calls} calls, {agent.tokens:,} tokens:")
    for what, tokens in agent.costs:
        print(f"  {tokens:5,}  {what}")
    record_property("calls", agent.calls)
    record_property("tokens", agent.tokens)
    assert agent.calls <= MOST_CALLS
    assert agent.tokens <= MOST_TOKENS
