"""Generate the page of all commands: usage, options, examples and exit codes."""

from __future__ import annotations

import re
from typing import Any

import click

from ci.reference.words import DOCS, code, marked, table
from memreplay.commands.app import app
from memreplay.commands.shared.helping import GROUPS, heading_of
from memreplay.commands.shared.listed import COMMANDS

HEAD = """\
# Commands
*Which commands are there, and what are their options?*

`make reference` generates this page from the commands; `memreplay COMMAND --help` prints the same.
Each command also has a page that shows how to use it.

"""
READING = "Reading"
# The options that most commands share are listed once.
SHARED = "Options for reading"
SHARED_ANCHOR = SHARED.lower().replace(" ", "-")
READING_HEAD = f"""\
## {SHARED}
Most commands have these options for the configuration, the device and the events. Each command
lists the ones it has.

"""
_PARAGRAPHS = re.compile(r"\n\s*\n")


def page() -> str:
    """Return the page."""
    found = {name: _command(name) for name in COMMANDS}
    shared = _group(found["peak"], READING)
    overview = table(
        ("command", "what it answers"),
        *((f"[{name}](#{_anchor(name)})", marked(text)) for name, text in COMMANDS.items()),
    )
    parts = [HEAD + overview, _app(), READING_HEAD + _options(shared)]
    parts += [_told(name, command, shared) for name, command in found.items()]
    return "\n".join(parts)


def _command(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def _anchor(name: str) -> str:
    return f"memreplay-{name}"


def _app() -> str:
    """Return the part about the program itself: options and exit codes of all commands."""
    help_text, *epilog = (app.help or "", app.epilog or "")
    own = [param for param in app.params if isinstance(param, click.Option)]
    return "\n".join(
        [
            "## memreplay",
            _usage("memreplay [OPTIONS] COMMAND [ARGS]..."),
            *_prose(help_text),
            _options(own),
            *(part for text in epilog for part in _epilog(text)),
        ]
    )


def _told(name: str, command: click.Command, shared: list[click.Option]) -> str:
    """Return the part about one command."""
    parts = [f"## memreplay {name}", _usage(f"memreplay {name} {' '.join(_pieces(command))}")]
    parts += _prose(command.help or "")
    if (DOCS / f"{name}.md").exists():
        parts.append(f"How to use it: [{name}](../{name}.md).\n")
    for title in GROUPS:
        options = _group(command, title)
        if not options:
            continue
        if title == READING and {*_records(options)} <= {*_records(shared)}:
            names = ", ".join(code(option.opts[0]) for option in options)
            parts.append(f"**{title}**: {names} ([what they mean](#{SHARED_ANCHOR})).\n")
        else:
            parts.append(f"**{title}**\n\n{_options(options)}")
    return "\n".join([*parts, *_epilog(command.epilog or "")])


def _usage(text: str) -> str:
    return f"```text\n{text.strip()}\n```\n"


def _pieces(command: click.Command) -> list[str]:
    """Return the rest of the usage line after the command's name."""
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    return ["[OPTIONS]", *(_argument(one) for one in arguments)]


def _argument(one: click.Argument) -> str:
    name = one.metavar or (one.name or "").upper()
    if one.metavar is None and one.nargs == -1:
        name += "..."
    return name if one.required or one.metavar else f"[{name}]"


def _group(command: click.Command, title: str) -> list[click.Option]:
    """Return the options of one group of a command's help, in order."""
    return [
        param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and heading_of(param) == title
    ]


def _options(options: list[click.Option]) -> str:
    return table(
        ("option", "meaning", "default"),
        *_records(options),
    )


def _records(options: list[click.Option]) -> list[tuple[str, str, str]]:
    """Return a table row for each option: names and value, help, default."""
    return [(_names(one), marked(_help(one)), _default(one)) for one in options]


def _names(one: click.Option) -> str:
    takes = _takes(one)
    # The long name comes first, because it's easier to remember.
    names = sorted([*one.opts, *one.secondary_opts], key=lambda name: -len(name))
    first, *others = names
    return ", ".join([code(f"{first} {takes}".strip()), *(code(other) for other in others)])


def _takes(one: click.Option) -> str:
    """Return the placeholder after an option, if it takes a value."""
    if one.is_flag:
        return ""
    if one.metavar:
        return one.metavar
    if isinstance(one.type, click.Choice):
        return max(one.opts, key=len).lstrip("-").upper()
    return one.type.name.upper().replace(" RANGE", "")


def _default(one: click.Option) -> str:
    if isinstance(one.show_default, str):
        return marked(one.show_default)
    if not one.show_default or one.default is None or one.is_flag:
        return ""
    return code(str(one.default))


def _help(one: click.Option) -> str:
    return " ".join([one.help or "", *_bounds(one.type)])


def _bounds(kind: Any) -> list[str]:
    """Return the choices, or the range of a number."""
    if isinstance(kind, click.Choice):
        return [f"One of {', '.join(f'`{choice}`' for choice in kind.choices)}."]
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return []
    found = []
    if kind.min is not None:
        found.append(f"{'above' if kind.min_open else 'at least'} {kind.min:,}")
    if kind.max is not None and kind.max < 2**31:
        found.append(f"{'below' if kind.max_open else 'at most'} {kind.max:,}")
    return [f"A number: {', '.join(found)}."] if found else []


def _prose(text: str) -> list[str]:
    return [marked(one) + "\n" for one in _PARAGRAPHS.split(text) if one.strip()]


def _epilog(text: str) -> list[str]:
    """Return the examples, and paragraphs such as the exit codes."""
    parts = []
    for one in _PARAGRAPHS.split(text):
        lines = one.replace("\b", "").strip("\n").splitlines()
        if lines and lines[0].strip() == "Examples:":
            examples = "\n".join(line.strip() for line in lines[1:])
            parts.append(f"**Examples**\n\n```sh\n{examples}\n```\n")
        elif lines:
            told = " ".join(line.strip() for line in lines)
            head, colon, rest = told.partition(": ")
            bold = colon and len(head) < 20
            parts.append((f"**{head}**: {marked(rest)}" if bold else marked(told)) + "\n")
    return parts
