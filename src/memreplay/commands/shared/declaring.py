"""Commands of the command line, made from what is declared: records of options, and a function.

    @as_command("leaks", examples=("memreplay leaks snap.pkl",), exits={5: "no steps, or too few"})
    def command(file: File, options: LeaksOptions, selection: Selection, reading: Reading,
                shown: Shown) -> int:
        "Shows which code holds more and more."

Each parameter that is a record becomes the options that the record declares (memreplay.declared),
`file` and `files` become arguments, and the function gets the records.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.exits import exit_codes
from memreplay.commands.shared.helping import HEADINGS, OWN, Command, Option, help_all
from memreplay.commands.shared.listed import COMMANDS
from memreplay.commands.shared.showing import AS_JSON, JSON_ROWS, SCREEN_ROWS
from memreplay.commands.shared.source import Reading
from memreplay.declared import Field, built, declared, is_record
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic from click 8.4 on only

_EVERYTHING: Mapping[str, Iterable[str]] = {}
MOST = 2**63 - 1  # more than there is of anything
# A path stays unchecked here: that a file is missing is no wrong usage, and has its own exit code.
_PATH = click.Path(allow_dash=True, readable=False, path_type=str)


class Arg:
    """An argument in place of an option: what stands in the usage line, whether it's needed, and
    what makes a value of its text; a path by default, `raw` text as it is."""

    def __init__(
        self,
        metavar: str = "",
        *,
        required: bool = True,
        parse: Callable[[str], Any] | None = None,
        raw: bool = False,
    ) -> None:
        self.raw = raw
        self.metavar = metavar
        self.required = required
        self.parse = parse


File = Annotated[str, Arg()]
"""One snapshot, `-` for standard input."""
Files = Annotated[tuple[str, ...], Arg("FILE...")]
"""One snapshot or more."""
Program = Annotated[tuple[str, ...], Arg("-- COMMAND...", raw=True)]
"""A program to run, with its arguments."""
OF_PROGRAM = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""Settings of a command that runs a program: what follows the program's name is the program's."""
BLOCK_MEASURES = "Which bytes: requested (default), held, active or allocated."
"""What --measure says where reserved memory, which is of segments, makes no sense."""


def as_command(
    name: str,
    *,
    examples: Sequence[str],
    exits: Mapping[int, str] | None = None,
    without: Iterable[str] = (),
    only: Mapping[str, Iterable[str]] = _EVERYTHING,
    words: Mapping[str, str] | None = None,
    screen: bool = False,
    rules: bool = False,
    after: str = "",
    context: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """A click command of a function; its help is the summary that the list of commands has, then
    the function's docstring.

    `without` names the fields of its records that it has no option for, `only` those of a record
    that it has options for, by the name of the record's parameter: `{"selection": ("strict",)}`.
    `words` says what a field
    means here, where that isn't what its record says. With `screen`, text shows as many rows as fit
    a screen unless --top says more. With `rules`, the selection has the rules of categories
    whatever it groups by. `exits` says what exit codes mean besides those of every command;
    `after` ends the help; `context` are settings of click's.
    """
    absent = frozenset(without)
    chosen = {one: frozenset(names) for one, names in only.items()}
    said = words or {}

    def decorated(function: Callable[..., Any]) -> click.Command:
        hints = get_type_hints(function, include_extras=True)
        hints.pop("return", None)
        records = {one: kind for one, kind in hints.items() if is_record(kind)}
        params: list[click.Parameter] = [
            _argument(one, kind) for one, kind in hints.items() if one not in records
        ]
        for one, kind in records.items():
            for field in declared(kind):
                if field.name not in absent and (one not in chosen or field.name in chosen[one]):
                    heading = HEADINGS.get(one, OWN)
                    params += _options(field, heading, said, screen=screen)
        _check_names(name, params)

        def called(**given: Any) -> Any:
            values = {one: given.pop(one) for one in hints if one not in records}
            _read_json(given)
            screen_rows(given)
            for one, kind in records.items():
                values[one] = built(kind, given)
            _with_rules(values, always=rules)
            return function(**values)

        return Command(
            name,
            callback=called,
            params=[*params, help_all()],
            help="\n\n".join(
                part for part in (COMMANDS.get(name), inspect.getdoc(function)) if part
            ),
            examples=examples,
            exits=exit_codes(exits or {}, strict=any(one.name == "strict" for one in params)),
            after=after,
            context_settings=dict(context or {}),
        )

    return decorated


def _check_names(name: str, params: Sequence[click.Parameter]) -> None:
    names = [param.name for param in params]
    twice = {one for one in names if names.count(one) > 1}
    assert not twice, f"{name}: two records of it declare {', '.join(map(str, twice))}"


def _read_json(given: dict[str, Any]) -> None:
    """--json is --format json."""
    if given.pop("as_json", False):
        source = click.get_current_context().get_parameter_source("format")
        if source is ParameterSource.COMMANDLINE and given["format"] != "json":
            raise click.UsageError(f"--json and --format {given['format']} contradict each other")
        given["format"] = "json"


def screen_rows(given: dict[str, Any]) -> None:
    """How many rows, where nothing says it: programs get more than fit a screen."""
    if "top" in given and given["top"] is None:
        given["top"] = JSON_ROWS if given.get("format") == "json" else SCREEN_ROWS


def _with_rules(values: dict[str, Any], *, always: bool) -> None:
    """Gives the selection the rules of categories that the configuration has."""
    selection, reading = values.get("selection"), values.get("reading")
    if isinstance(selection, Selection) and isinstance(reading, Reading):
        config = reading.config
        found = config.rules() if always else config.rules_for(selection.by)
        values["selection"] = replace(selection, rules=found)


def _argument(name: str, kind: Any) -> click.Argument:
    bare, arg = kind, Arg()
    if get_origin(kind) is Annotated:
        bare, *notes = get_args(kind)
        arg = next((one for one in notes if isinstance(one, Arg)), arg)
    many = get_origin(bare) is tuple
    return click.Argument(
        [name],
        type=_type_of(arg),
        nargs=-1 if many else 1,
        required=arg.required,
        metavar=arg.metavar or None,
    )


def _type_of(arg: Arg) -> click.ParamType[Any]:
    if arg.raw:
        return click.UNPROCESSED
    return Parsed(arg.metavar, arg.parse) if arg.parse else _PATH


def _options(
    field: Field, heading: str, words: Mapping[str, str], *, screen: bool
) -> Iterator[click.Option]:
    """The option of a field; of a format also --json."""
    if field.name == "format":
        yield option(AS_JSON, heading, words.get(AS_JSON.name))
    if field.name == "top" and screen:
        rows = f"{SCREEN_ROWS}, or {JSON_ROWS} in JSON"
        field = replace(field, default=None, opt=replace(field.opt, shown=rows))
    yield option(field, heading, words.get(field.name))


def option(field: Field, heading: str = OWN, words: str | None = None) -> Option:
    """The option that a field of a record is asked with; `words` in place of its own help."""
    if words:
        field = replace(field, opt=replace(field.opt, help=words, brief=""))
    opt = field.opt
    names = [field.name, *([opt.short] if opt.short else []), field.flag]
    settings: dict[str, Any] = {"help": opt.help}
    if field.kind is bool:
        return Option(names, is_flag=True, declared=field, heading=heading, **settings)
    if get_origin(field.kind) is Literal and not opt.parse:
        settings["type"] = click.Choice(get_args(field.kind))
    elif opt.path:
        settings["type"] = click.Path(
            dir_okay=opt.path != "file", allow_dash=True, readable=False, path_type=str
        )
    else:
        settings["type"] = Value(field)
    if field.many:
        settings["multiple"] = True
        if opt.joined:
            settings["callback"] = _chained
    else:
        settings["default"] = field.default
    plain = not field.many and field.default not in (None, 0, "")
    settings["show_default"] = opt.shown or (plain and opt.shown is None)
    return Option(names, metavar=opt.metavar or None, declared=field, heading=heading, **settings)


def _chained(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[Any, ...], ...]
) -> tuple[Any, ...]:
    """The values of all texts, each once."""
    return tuple(dict.fromkeys(one for some in value for one in some))


class Parsed(_ParamType):
    """What a function makes of an argument's text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; a usage error where the text is none."""
        try:
            return self.parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Value(_ParamType):
    """What a field's text becomes, by what it declares."""

    def __init__(self, field: Field) -> None:
        self.field = field
        parse = field.opt.parse
        # What the list of the public interface says that it takes: size, when, integer, text.
        self.name = parse.__name__.removeprefix("parse_") if parse else _NAMES[field.kind]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; a usage error where the text is none, or out of range."""
        if not isinstance(value, str):  # a default
            return value
        opt, kind = self.field.opt, self.field.kind
        try:
            found = opt.parse(value) if opt.parse else _NUMBERS.get(kind, str)(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a valid {_NAMES[kind]}.", param, ctx)
        if kind in _NUMBERS and not opt.parse:
            found = self._in_range(found, param, ctx)
        return found

    def _in_range(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        least, most = self.field.opt.least, self.field.opt.most
        if least is not None and most is not None and not least <= value <= most:
            self.fail(f"{value} is not between {least:,} and {most:,}", param, ctx)
        if least is not None and not value >= least:  # nor NaN
            self.fail(f"{value} is below {least}", param, ctx)
        return min(value, MOST)  # of more than there can be, all is meant

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """What goes on from what is there; after a comma the next one."""
        from click.shell_completion import CompletionItem  # late: for a shell alone

        done, comma, begun = incomplete.rpartition(",")
        return [
            CompletionItem(done + comma + one)
            for one in self.field.opt.among()
            if one.lower().startswith(begun.lower())
        ]


_NUMBERS: dict[Any, Callable[[str], Any]] = {int: int, float: float}
_NAMES = {int: "integer", float: "number", str: "text"}
