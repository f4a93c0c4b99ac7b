"""`memreplay help`: print a page of the documentation, which is part of the package, or the help of
an option.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

import click

from memreplay.commands.shared.listed import COMMANDS
from memreplay.commands.shared.output import write
from memreplay.errors import UsageError
from memreplay.width import terminal_width

PAGES = Path(__file__).parents[2] / "pages"  # a symlink to docs/
TUTORIALS = "tutorials"
ENDING = ".md"
WIDEST = 100
# Starts of lines to skip when looking for a page's first sentence, such as titles, commands, images
# and tables.
_BESIDE = ("#", "    ", "|", "!", "`")


def _completed(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    return [name for name in _pages() if name.startswith(begun.lower())]


@click.command(
    "help",
    help="\n\n".join(
        (
            COMMANDS["help"],
            (
                "Without TOPIC, list all pages. Pages are printed as Markdown. TOPIC may also be an"
                " option (only, forbid)."
            ),
        )
    ),
    epilog="""\b
Examples:
  memreplay help
  memreplay help oom
  memreplay help tutorials/out-of-memory
  memreplay help numbers | less""",
)
@click.argument("topic", required=False, shell_complete=_completed)
def command(topic: str | None) -> None:
    """Print a page, an option's help, or the list of all pages."""
    pages = _pages()
    formatter = click.HelpFormatter(width=min(WIDEST, terminal_width()))
    if topic is None:
        formatter.write_dl([(name, _about(page)) for name, page in pages.items()])
        write(formatter.getvalue().rstrip())
        return
    if topic not in pages and (found := _option(topic.strip().lstrip("-"))):
        formatter.write_dl(found)
        write(formatter.getvalue().rstrip())
        return
    write(pages[_found(topic, list(pages))].read_text(encoding="utf-8").rstrip())


def _option(name: str) -> list[tuple[str, str]]:
    """Return the option as each command has it, with its help and the commands."""
    ctx = click.get_current_context().find_root()
    group = ctx.command
    found: dict[tuple[str, str], list[str]] = {}
    if not isinstance(group, click.Group):
        return []
    for command_name in COMMANDS:
        one = group.get_command(ctx, command_name)
        for param in one.params if one else ():
            record = param.get_help_record(ctx) if f"--{name}" in param.opts else None
            if record is not None:
                found.setdefault(record, []).append(command_name)
    return [
        (spelled, f"{words} In: {', '.join(names)}.") for (spelled, words), names in found.items()
    ]


def _found(topic: str, pages: list[str]) -> str:
    """Find a page by name, with or without its folder, ignoring case and punctuation.

    Raises UsageError that suggests similar names.
    """
    name = topic.strip().lower().removeprefix("docs/").removesuffix(ENDING)
    name = re.sub(r"[\s_]+", "-", name)
    if name in pages:
        return name
    short = {page.rpartition("/")[2]: page for page in reversed(pages)}
    if name in short:
        return short[name]
    near = [short[one] for one in get_close_matches(name, short, 3, 0.6)]
    near += [page for page in pages if name and name in page and page not in near]
    if near:
        raise UsageError(f"unknown page {topic!r}; did you mean {' or '.join(near[:3])}?")
    raise UsageError(f"unknown page {topic!r}; pages: {', '.join(pages)}")


def _pages() -> dict[str, Path]:
    folder = PAGES
    if folder.is_file():  # on Windows, git checks out the symlink as a file
        folder = folder.parent / folder.read_text(encoding="utf-8").strip()
    found = [*sorted(folder.glob(f"*{ENDING}")), *sorted(folder.glob(f"{TUTORIALS}/*{ENDING}"))]
    pages = {page.relative_to(folder).as_posix().removesuffix(ENDING): page for page in found}
    if not pages:
        raise UsageError("this installation has no help pages; install memreplay from a wheel")
    return pages


def _about(page: Path) -> str:
    """Return a page's first sentence."""
    for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith(_BESIDE)]
        if lines:
            words = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", " ".join(lines)).strip("*")
            return words if words.endswith("?") else words.split(". ")[0].rstrip(".:") + "."
    return ""
