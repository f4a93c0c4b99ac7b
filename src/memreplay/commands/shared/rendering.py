"""What a command found, as text for people or as JSON for programs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from memreplay.commands.shared.output import render_document


def rendering(
    fmt: str, document: str, *, last: str | None = None, indent: int | None = 2, **options: object
) -> Callable[[Any], str]:
    """The function that renders a report in this format.

    `document` names the function of `memreplay.commands` that makes a document of a report
    ("peak.text:peak_document"), which is not imported for JSON; `options` go to it. Markdown is
    that document, too. `last` names
    the one that says what to repeat below it where it is long. `indent` is that of the JSON.
    """

    def as_json(report: Any) -> str:
        from memreplay.render.record_json import render_json

        return render_json(report, indent=indent)

    def as_markdown(report: Any) -> str:
        from memreplay.render.markdown import render_markdown

        return render_markdown(_function(document)(report, **options))

    def as_text(report: Any) -> str:
        repeated = _function(last)(report) if last else ()
        return render_document(_function(document)(report, **options), last=repeated)

    return {"json": as_json, "markdown": as_markdown}.get(fmt, as_text)


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"memreplay.commands.{module}"), function)
    return found
