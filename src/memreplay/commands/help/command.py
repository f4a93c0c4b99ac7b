"""`memreplay help`: prints a page of the documentation, which the package carries."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

import click

from memreplay.commands.shared.listed import COMMANDS
from memreplay.commands.shared.output import write
from memreplay.errors import UsageError
from memreplay.width import terminal_width

PAGES = Path(__file__).parents[2] / "pages"  # docs/, by a link
TUTORIALS = "tutorials"
ENDING = ".md"
WIDEST = 100
# What a page begins with that says nothing of it: titles, commands, pictures, tables.
_BESIDE = ("#", "    ", "|", "!", "`")


def _completed(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    return [name for name in _pages() if name.startswith(begun.lower())]


@click.command(
    "help",
    help="\n\n".join(
        (
            COMMANDS["help"],
            "Without TOPIC, lists the pages. A page is printed as Markdown, as it is in docs/.",
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
    """The page, or the list of all pages."""
    pages = _pages()
    if topic is None:
        formatter = click.HelpFormatter(width=min(WIDEST, terminal_width()))
        formatter.write_dl([(name, _about(page)) for name, page in pages.items()])
        write(formatter.getvalue().rstrip())
        return
    write(pages[_found(topic, list(pages))].read_text(encoding="utf-8").rstrip())


def _found(topic: str, pages: list[str]) -> str:
    """The page that is meant: by its name, or that without its folder, however it is written.

    Raises UsageError, which names pages that are called much the same.
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
        raise UsageError(f"no page is called {topic!r}: did you mean {' or '.join(near[:3])}?")
    raise UsageError(f"no page is called {topic!r}; there are: {', '.join(pages)}")


def _pages() -> dict[str, Path]:
    folder = PAGES
    if folder.is_file():  # what git on Windows makes of a link, in a checkout that is installed
        folder = folder.parent / folder.read_text(encoding="utf-8").strip()
    found = [*sorted(folder.glob(f"*{ENDING}")), *sorted(folder.glob(f"{TUTORIALS}/*{ENDING}"))]
    pages = {page.relative_to(folder).as_posix().removesuffix(ENDING): page for page in found}
    if not pages:
        raise UsageError("this installation has no pages: install memreplay from a wheel")
    return pages


def _about(page: Path) -> str:
    """The question that a page answers: its first sentence."""
    for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith(_BESIDE)]
        if lines:
            words = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", " ".join(lines)).strip("*")
            return words if words.endswith("?") else words.split(". ")[0].rstrip(".:") + "."
    return ""
