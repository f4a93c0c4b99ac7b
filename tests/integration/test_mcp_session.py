"""In a session with `memreplay mcp`, an agent finds the planted leak, and why the server ran out of
memory.

The agent is a script that knows a folder, but not its contents: it reads the instructions and the
list of tools, picks tools by their descriptions, and takes every file, line and number from the
answers. The cost is counted as for a language model: the instructions, the tools, each call's
arguments and each answer. The number of tokens is estimated as the number of UTF-8 bytes divided by
3, rounded up. Current tokenizers need one token per 3.5 to 4.5 bytes of such text, so this
overestimates.
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
MOST_BYTES = 8_192  # per answer
VAIN = re.compile("doesn't help|not enough|still fails")  # advice that doesn't help
PLACE = re.compile(r"(\S+) (\S+\.py):(\d+)")


class Found(NamedTuple):
    """The agent's findings."""

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
    """An agent that calls tools and counts their cost."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls = 0
        self.costs: list[tuple[str, int]] = []

    def pay(self, what: str, text: str) -> None:
        """Add a text's cost."""
        self.costs.append((what, -(-len(text.encode()) // 3)))

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.costs)

    async def begin(self) -> dict[str, str]:
        """Return the tools' descriptions by name, and keep the instructions."""
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
        """Call a tool and return its answer's lines."""
        self.calls += 1
        self.pay(f"{tool}, asked", json.dumps({"name": tool, "arguments": arguments}))
        result = await self.client.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in result.content)
        assert not result.is_error, text
        assert len(text.encode()) <= MOST_BYTES
        self.pay(tool, text)
        return text.splitlines()


def named(tools: dict[str, str], words: str) -> str:
    """Return the tool whose description contains these words."""
    (found,) = [name for name, description in tools.items() if words in description]
    return found


def rows(lines: list[str], title: str) -> list[dict[str, str]]:
    """Return the rows of the table whose first column has this title, keyed by column."""
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
    """Return the values in lines like `name: value`."""
    split = (line.partition(": ") for line in lines)
    return {name: value for name, colon, value in split if colon}


def place(words: str) -> tuple[str, str, int]:
    """Return the function, file and line of the first call in a chain."""
    match = PLACE.match(words.partition(" < ")[0])
    assert match, words
    return match[1], match[2], int(match[3])


async def investigate(agent: Agent) -> Found:
    """Do what a sensible agent would, step by step."""
    tools = await agent.begin()
    # The instructions say: "Begin with files(check=true)".
    match = re.search(r"Begin with (\w+)\((\w+)=true\)", agent.instructions)
    assert match
    found = rows(await agent.call(match[1], **{match[2]: True}), "file")
    (leaking,) = [row["file"] for row in found if re.search(r"leaks: \d", row["found"])]
    (failed,) = [row["file"] for row in found if "memory ran out" in row["found"]]

    lines = await agent.call(named(tools, "holds more memory after every step"), file=leaking)
    (leak,) = rows(lines, "leaks a step")

    lines = await agent.call(named(tools, "Why an allocation failed"), file=failed)
    first = rows(lines, "oom")[0]
    said = pairs(lines)
    asked_by = lines[lines.index("requested at, and its callers") + 1]
    holder = rows(lines, "bytes")[0]["allocated at, and its callers"]
    start = lines.index("what would have helped") + 1
    advice = pairs(lines[start : start + 2])
    helps = {name: not VAIN.search(words) for name, words in advice.items()}
    missing = re.search(r"([\d.]+ \w+) missing", said["driver"])
    assert missing

    # Would smaller tensors from that code have been enough? Simulate the run with tensors of a
    # third of their size.
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
    """Return a source line from one of the example programs."""
    below = path.removeprefix("/workspace/")
    return (ROOT / "examples" / below).read_text(encoding="utf-8").splitlines()[line - 1].strip()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_agent_finds_the_leak_and_its_cause(
    mode: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The session runs with both handshakes: that of older clients and the newest."""

    async def session() -> tuple[Found, Agent]:
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "memreplay", "mcp", str(ROOT / "examples")]
        )
        async with Client(stdio_client(started), mode=mode, read_timeout_seconds=120) as client:
            agent = Agent(client)
            return await investigate(agent), agent

    found, agent = asyncio.run(session())

    # The leak: examples/tiny/train.py appends a tensor of 64 KiB to a list in each step.
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
    assert found.helps == {"expandable_segments": False, "hold less": True}
    assert found.verified

    print(f"\n{agent.calls} calls, {agent.tokens:,} tokens:")
    for what, tokens in agent.costs:
        print(f"  {tokens:5,}  {what}")
    record_property("calls", agent.calls)
    record_property("tokens", agent.tokens)
    assert agent.calls <= MOST_CALLS
    assert agent.tokens <= MOST_TOKENS
