"""Reads what to group by: one way, or several joined by commas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[str]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

# As model.WAYS, which a command line that only asks for help should not have to load.
WAYS = (
    "stack",
    "frame",
    "innermost",
    "function",
    "file",
    "directory",
    "module",
    "category",
    "phase",
    "annotation",
    "compile_context",
    "user_metadata",
    "stream",
    "pool",
    "size",
)
# What people may call them, too.
_ALSO = {"user-frame": "frame", "compile-context": "compile_context", "modules": "module"} | {
    "user-metadata": "user_metadata"
}


class ByType(_ParamType):
    """`stack`, `file`, … or several: `category,file`."""

    name = "way"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The ways, each once; a usage error for one that there is not."""
        ways = [_ALSO.get(way.strip(), way.strip()) for way in str(value).split(",")]
        for way in ways:
            if way not in WAYS:
                self.fail(f"{way!r} is not one of {', '.join(WAYS)}", param, ctx)
        return ",".join(dict.fromkeys(ways))

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The ways that go on from what is there; after a comma the next one."""
        from click.shell_completion import CompletionItem  # late: for a shell alone

        done, comma, begun = incomplete.rpartition(",")
        return [CompletionItem(done + comma + way) for way in WAYS if way.startswith(begun)]
