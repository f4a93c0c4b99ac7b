"""Output options: the format, and full or short stacks."""

# The type annotations declare options and are read on every start, so they aren't stored as text.
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Top
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import Output, render_document
from memreplay.commands.shared.present import Report, trust_code
from memreplay.declared import Field, Opt, Options
from memreplay.width import PIPE_WIDTH

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.render.document import Document

# A group takes about three lines, so this many fit on a screen. Programs that read JSON get more.
SCREEN_ROWS, JSON_ROWS = 10, 20

_JSON = Opt("Print JSON (see memreplay help json).", flag="--json")
AS_JSON = Field("as_json", bool, False, False, False, _JSON, bool)
"""The only option without its own field: it sets another one."""

Format = Annotated[
    Literal["text", "json"],
    Opt("Output format: text or json.", "NAME", group="Output", rare=True),
]
PageFormat = Annotated[
    Literal["text", "markdown", "json"],
    Opt(
        "Output format; markdown is for pull requests and issues.",
        group="Output",
    ),
]


class Shown(Options, frozen=True):
    """Output options: text or JSON."""

    format: Format = "text"


class ShownRows(Shown, frozen=True):
    """Text with some rows, or JSON with all of them."""

    top: Top = 20


class ShownFrames(Shown, frozen=True):
    """Output options: text with stacks, or JSON."""

    all_frames: Annotated[
        bool,
        Opt(
            "Show full stacks, with PyTorch, Python and C++ frames.",
            group="Output",
            brief="Show full stacks.",
        ),
    ] = False


class ShownPage(Options, frozen=True):
    """Output options: text, JSON or Markdown, for results that people share."""

    format: PageFormat = "text"


class ShownReport(ShownPage, frozen=True):
    """Output options: text, JSON or Markdown, and the file to write."""

    output: Output = Output()


def folded(selection: "Selection", shown: ShownFrames) -> "Selection":
    """Merge stacks that would look the same in text because they only differ in omitted frames."""
    return replace(selection, fold=shown.format == "text" and not shown.all_frames)


R = TypeVar("R", bound=Report)
ToDocument = Callable[..., "Document"]


def _output(shown: Shown | ShownPage) -> Output:
    return shown.output if isinstance(shown, ShownReport) else Output()


def text_of(
    found: Any,
    shown: Shown | ShownPage,
    document: ToDocument,
    *,
    last: "Callable[[Any], Document] | None" = None,
    indent: int | None = 2,
    **settings: Any,
) -> str:
    """Return the result in the requested format.

    `document` builds the document and gets `settings`; `last` is what to repeat below a long
    document. `indent`: for JSON. Text for a file is plain, even if stdout shows colours.
    """
    if shown.format == "json":
        from memreplay.render.record_json import render_json  # late: text output doesn't need it

        return render_json(found, indent=indent)
    if isinstance(shown, ShownFrames):
        settings["all_frames"] = shown.all_frames
    made = document(found, **settings)
    if shown.format == "markdown":
        from memreplay.render.markdown import render_markdown  # imported late: rarely used

        return render_markdown(made)
    if _output(shown).is_file:
        from memreplay.render.plain import render_plain  # imported late: most text goes to stdout

        return render_plain(made, width=PIPE_WIDTH)
    return render_document(made, last=last(found) if last else ())


def present(
    file: str,
    work: Callable[[], R],
    shown: Shown | ShownPage,
    document: ToDocument,
    *,
    strict: bool = False,
    **settings: Any,
) -> int:
    """Write the result of `work`, which reads `file`. Return the exit code. `settings` are passed
    on to `text_of`.
    """
    output = _output(shown)
    output.check_file([file])
    report, exit_code = attempt(file, work)
    if report is not None:
        output.write(text_of(report, shown, document, **settings))
        exit_code = trust_code(report, strict)
    return exit_code
