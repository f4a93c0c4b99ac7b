"""How a command shows what it found: which format, whole stacks or short ones."""

# Annotations declare options here, which each start reads: they are no text to be evaluated.
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec.structs import replace

from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import Output, render_document
from memreplay.commands.shared.present import Report, trust_code
from memreplay.declared import Field, Opt, Options
from memreplay.width import PIPE_WIDTH

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.render.document import Document

# Rows of holders take three lines: so many fit a screen. Programs get more.
SCREEN_ROWS, JSON_ROWS = 10, 20

_JSON = Opt("JSON, for programs (memreplay help json).", flag="--json")
AS_JSON = Field("as_json", bool, False, False, False, _JSON, bool)
"""The one option that no record has a field for: it's a value of another one."""

Format = Annotated[
    Literal["text", "json"],
    Opt("Text for people, or JSON for programs.", "NAME", group="Output", rare=True),
]
PageFormat = Annotated[
    Literal["text", "markdown", "json"],
    Opt(
        "For people, for a pull request or an issue, or for programs.",
        group="Output",
    ),
]


class Shown(Options, frozen=True):
    """Text or JSON."""

    format: Format = "text"


class ShownFrames(Shown, frozen=True):
    """Text with stacks, or JSON."""

    all_frames: Annotated[
        bool,
        Opt(
            "Show whole stacks, with PyTorch's, Python's and C++ frames.",
            group="Output",
            brief="Show whole stacks.",
        ),
    ] = False


class ShownPage(Options, frozen=True):
    """Text, JSON, or Markdown: of what people pass on."""

    format: PageFormat = "text"


def folded(selection: "Selection", shown: ShownFrames) -> "Selection":
    """The selection, in which stacks that look the same as text are one group: those that differ
    only in frames that text leaves out."""
    return replace(selection, fold=shown.format == "text" and not shown.all_frames)


R = TypeVar("R", bound=Report)
ToDocument = Callable[..., "Document"]
STDOUT = Output()


def text_of(
    found: Any,
    shown: Shown | ShownPage,
    document: ToDocument,
    *,
    last: "Callable[[Any], Document] | None" = None,
    indent: int | None = 2,
    plain: bool = False,
    **settings: Any,
) -> str:
    """What was found, in the format that was asked for.

    `document` makes a document of it, with `settings`; `last` says what to repeat below it where it
    is long. `indent` is that of the JSON. `plain` is text for a file, whatever stdout is.
    """
    if shown.format == "json":
        from memreplay.render.record_json import render_json  # late: text has no use for it

        return render_json(found, indent=indent)
    if isinstance(shown, ShownFrames):
        settings["all_frames"] = shown.all_frames
    made = document(found, **settings)
    if shown.format == "markdown":
        from memreplay.render.markdown import render_markdown  # late: few ask for it

        return render_markdown(made)
    if plain:
        from memreplay.render.plain import render_plain  # late: most text goes to stdout

        return render_plain(made, width=PIPE_WIDTH)
    return render_document(made, last=last(found) if last else ())


def present(
    file: str,
    work: Callable[[], R],
    shown: Shown | ShownPage,
    document: ToDocument,
    *,
    strict: bool = False,
    output: Output = STDOUT,
    **settings: Any,
) -> int:
    """Write what `work`, which reads `file`, finds: the exit code of that, or of its error. The
    settings are those of `text_of`."""
    output.check_file([file])
    report, exit_code = attempt(file, work)
    if report is not None:
        output.write(text_of(report, shown, document, plain=output.is_file, **settings))
        exit_code = trust_code(report, strict)
    return exit_code
