"""Implement the Model Context Protocol: list the tools, and run each call on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from memreplay.io.version import __version__
from memreplay.mcp.arguments import schema_of
from memreplay.mcp.cache import Kept
from memreplay.mcp.calls import ReportedError, ToolCall, reported
from memreplay.mcp.hosts import Hosts
from memreplay.mcp.leaving import end_at_signals, watch_output
from memreplay.mcp.paging import bounded
from memreplay.mcp.running import QUERIES_AT_ONCE, Threads
from memreplay.mcp.tools import INSTRUCTIONS, TOOLS, Toolbox
from memreplay.texts import clean

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from memreplay.analysis.categories.rules import Rule
    from memreplay.commands.shared.source import Reading
    from memreplay.mcp.allowed import Allowed

# A call that takes longer is answered with an error, and stops at the next block that it reads.
CALL_SECONDS = 600.0


def listed_tools() -> list[types.Tool]:
    """Return the tools in the protocol's form."""
    return [
        types.Tool(
            name=name,
            description=tool.description,
            input_schema=schema_of(tool.arguments),
            annotations=types.ToolAnnotations(read_only_hint=True),
        )
        for name, tool in TOOLS.items()
    ]


def server_of(allowed: Allowed, reading: Reading, rules: tuple[Rule, ...]) -> Server[Any]:
    """Create a server for these folders, within its event loop."""
    toolbox, kept, hosts = Toolbox(), Kept(), Hosts()
    threads, queries = Threads(), Threads(QUERIES_AT_ONCE)
    tools = listed_tools()

    async def list_tools(
        _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        given: Mapping[str, Any] = params.arguments or {}

        def work(stop: Event) -> str:
            hosts.get_ready()
            tool_call = ToolCall(allowed, kept, hosts, reading, rules, stop)
            return reported("", lambda: toolbox.call(params.name, given, tool_call))

        try:
            # Queries that take long don't keep other calls waiting.
            running = (queries if params.name == "sql" else threads).run(work)
            return _result(await asyncio.wait_for(running, CALL_SECONDS))
        except asyncio.TimeoutError:
            words = f"this took longer than {CALL_SECONDS:g} s; ask about a smaller file"
            return _result(words, is_error=True)
        except ReportedError as error:
            return _result(bounded(clean(str(error))), is_error=True)
        except Exception as error:  # this is a bug, but it shouldn't end the session
            words = f"internal error: {type(error).__name__}: {error}"
            return _result(bounded(clean(words)), is_error=True)

    @asynccontextmanager
    async def session(_server: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            hosts.close()

    return Server(
        "memreplay",
        version=__version__,
        instructions=INSTRUCTIONS,
        lifespan=session,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=is_error
    )


def serve(allowed: Allowed, reading: Reading, rules: tuple[Rule, ...]) -> None:
    """Serve stdin and stdout until the input ends. Raises BrokenPipeError if the output is
    closed.
    """

    async def run() -> None:
        server = server_of(allowed, reading, rules)
        async with stdio_server() as (source, sink):
            await server.run(source, sink, server.create_initialization_options())

    watch_output(1)
    end_at_signals()
    try:
        asyncio.run(run())
    except BaseException as error:
        if _is_broken_pipe(error):
            raise BrokenPipeError from None
        raise


def _is_broken_pipe(error: BaseException) -> bool:
    """Return whether the error is a BrokenPipeError, or a group that only contains these."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return isinstance(error, BrokenPipeError) or (bool(inner) and all(map(_is_broken_pipe, inner)))
