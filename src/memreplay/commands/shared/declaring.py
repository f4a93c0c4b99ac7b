"""Build command-line commands from declared option records and a function.

    @as_command("leaks", examples=("memreplay leaks snap.pkl",), exits={5: "no steps, or too few"})
    def command(file: File, options: LeaksOptions, selection: Selection, reading: Reading,
                shown: Shown) -> int:
        "Shows which code holds more and more."

Record parameters become the options they declare (memreplay.declared), `file` and `files` become
arguments, and the function receives the records.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource
from msgspec.structs import replace

from memreplay.analysis.selecting.answering import without_of
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.exits import exit_codes
from memreplay.commands.shared.helping import (
    AFTER_DASHES,
    HEADINGS,
    OWN,
    Command,
    Option,
    help_all,
)
from memreplay.commands.shared.listed import COMMANDS
from memreplay.commands.shared.showing import AS_JSON, JSON_ROWS, SCREEN_ROWS
from memreplay.commands.shared.source import Reading
from memreplay.declared import Field, Opt, Shared, built, check_needs, declared, is_record
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from msgspec import Struct

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic only since click 8.4

_EVERYTHING: Mapping[str, Iterable[str]] = {}
_NO_WORDS: Mapping[str, str] = {}
KEYED = "keyed_"  # prefix for the names of shared options; no field's name may start with it
MOST = sys.maxsize  # larger than any count


class Arg:
    """An argument: its name in the usage line, whether it's required, and its parser. An argument
    is a path by default; with `raw`, text is passed on unchanged.
    """

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
"""One or more snapshots."""
FileOrProgram = Annotated[tuple[str, ...], Arg("FILE | -- COMMAND...")]
"""One snapshot, or a program to run; see `file_or_program`."""
Program = Annotated[tuple[str, ...], Arg("-- COMMAND...", raw=True)]
"""A program to run, with its arguments."""
OF_PROGRAM = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""Settings of a command that runs a program: everything after the program's name belongs to it."""
BLOCK_MEASURES = "Which bytes to count: requested (default), held, active or allocated."
"""The help of --measure where reserved memory, which consists of segments, doesn't apply."""


def as_command(
    name: str,
    *,
    examples: Sequence[str],
    answers: Callable[..., Any] | None = None,
    exits: Mapping[int, str] | None = None,
    without: Iterable[str] = (),
    only: Mapping[str, Iterable[str]] = _EVERYTHING,
    words: Mapping[str, str] | None = None,
    screen: bool = False,
    rules: bool = False,
    after: str = "",
    context: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Turn a function into a click command. Its help is the summary from the list of commands, then
    the function's docstring.

    `answers`: the function that computes the answer; fields it doesn't use don't become options.
    `without`: other fields to leave out. `only`: the fields to keep, by record parameter:
    `{"selection": ("strict",)}`. `words`: help texts that differ in this command, by field.
    `screen`: text shows as many rows as fit on a screen unless --top is given. `rules`: the
    selection always gets the category rules. `exits`: exit codes other than the common ones.
    `after`: the end of the help. `context`: click settings.
    """
    absent, unused = frozenset(without), without_of(answers)
    chosen = {one: frozenset(names) for one, names in only.items()}
    said = words or {}

    def decorated(function: Callable[..., Any]) -> click.Command:
        hints = get_type_hints(function, include_extras=True)
        hints.pop("return", None)
        records = {one: kind for one, kind in hints.items() if is_record(kind)}
        params: list[click.Parameter] = [
            _argument(one, kind) for one, kind in hints.items() if one not in records
        ]
        fields = [
            (field, HEADINGS.get(one, OWN))
            for one, kind in records.items()
            for field in declared(kind)
            if not (kind is Selection and field.name in unused)
            and field.name not in absent
            and (one not in chosen or field.name in chosen[one])
        ]
        params += options_of(fields, said, screen=screen)
        _check_names(name, params)

        def called(**given: Any) -> Any:
            values = {one: given.pop(one) for one in hints if one not in records}
            spread(given)
            _read_json(given)
            screen_rows(given)
            for one, kind in records.items():
                others = unused & given.keys() if kind is Selection else ()
                kept = {name: given.pop(name) for name in others}  # for another record
                values[one] = built(kind, given)
                check_needs(values[one])
                given |= kept
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


def file_or_program(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the file, or "" and the program: the words after `--`. Raises UsageError."""
    after = click.get_current_context().meta[AFTER_DASHES]
    if after == len(words):
        return "", words
    if after:
        raise UsageError("give a FILE or a program, not both")
    if len(words) > 1:
        raise UsageError(f"only one FILE is read, not {len(words)}; write -- before a program")
    return words[0], ()


def check_not_given(record: Struct, names: Iterable[str], needed: str) -> None:
    """Raise UsageError if any of these fields has another value than its default, because it has no
    effect without what is `needed`.
    """
    for field in declared(type(record)):
        if field.name in names and getattr(record, field.name) != field.default:
            raise UsageError(f"{field.spelled} only applies to {needed}")


def _check_names(name: str, params: Sequence[click.Parameter]) -> None:
    names = [param.name for param in params]
    twice = {one for one in names if names.count(one) > 1}
    assert not twice, f"{name}: two records of it declare {', '.join(map(str, twice))}"


def _read_json(given: dict[str, Any]) -> None:
    """Treat --json as --format json."""
    if given.pop("as_json", False):
        source = click.get_current_context().get_parameter_source("format")
        if source is ParameterSource.COMMANDLINE and given["format"] != "json":
            raise click.UsageError(
                f"--json and --format {given['format']} exclude each other; give one"
            )
        given["format"] = "json"


def screen_rows(given: dict[str, Any]) -> None:
    """Set the number of rows if it isn't given. Programs get more rows than fit on a screen."""
    if "top" in given and given["top"] is None:
        given["top"] = JSON_ROWS if given.get("format") == "json" else SCREEN_ROWS


def _with_rules(values: dict[str, Any], *, always: bool) -> None:
    """Add the configuration's category rules to the selection."""
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
    return Parsed(arg.metavar, arg.parse) if arg.parse else Named("path")


def options_of(
    fields: Sequence[tuple[Field, str]],
    words: Mapping[str, str] = _NO_WORDS,
    *,
    screen: bool = False,
) -> Iterator[click.Option]:
    """Yield the options of a record's fields. Fields that share an option yield one option, and a
    format also yields --json.
    """
    for field, heading in fields:
        shared = field.opt.of
        if shared is not None:
            together = [one for one, _ in fields if one.opt.of == shared]
            if field is together[0]:
                yield _keyed(shared, together, heading)
            continue
        if field.name == "format":
            yield option(AS_JSON, heading, words.get(AS_JSON.name))
        if field.name == "top" and screen:
            rows = f"{SCREEN_ROWS}, or {JSON_ROWS} in JSON"
            field = replace(field, default=None, opt=replace(field.opt, shown=rows))
        yield option(field, heading, words.get(field.name))


def _keyed(shared: Shared, fields: Sequence[Field], heading: str) -> Option:
    """Return the option shared by several fields."""
    named = [f"{_asked(one)} ({one.opt.help})" for one in fields]
    kinds = {one.kind is bool for one in fields}
    return Option(
        [KEYED + shared.flag.removeprefix("--"), shared.flag],
        type=Keyed(fields),
        multiple=True,
        metavar="KEY[=VALUE]" if len(kinds) > 1 else "KEY" if True in kinds else "KEY=VALUE",
        help=f"{shared.help}: {', '.join(named)}.",
        declared=replace(
            fields[0],
            opt=Opt("", brief=f"{shared.help}: {', '.join(map(_asked, fields))}."),
        ),
        heading=heading,
    )


def _asked(field: Field) -> str:
    """Return how a key is written, such as `stream=N`."""
    return field.key if field.kind is bool else f"{field.key}={field.opt.metavar}"


def spread(given: dict[str, Any]) -> None:
    """Store the values of shared options under the names of their fields. Raises UsageError if a
    key that takes one value is given two.
    """
    for name in [one for one in given if one.startswith(KEYED)]:
        for field, value in given.pop(name) or ():
            if not field.many and given.get(field.name, value) != value:
                raise UsageError(f"{field.spelled} takes one value; give it once")
            given[field.name] = (*given.get(field.name, ()), value) if field.many else value


def option(field: Field, heading: str = OWN, words: str | None = None) -> Option:
    """Build the option for a record's field. `words` replaces its help."""
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
        settings["type"] = Named("file" if opt.path == "file" else "path")
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
    """Parse all strings, and return the distinct values."""
    return tuple(dict.fromkeys(one for some in value for one in some))


class Named(_ParamType):
    """A click type for the name of a file, or with the name "path", also of a folder. click's own
    type looks for translations, which takes 2% of a short command's start.

    A missing file isn't a usage error: it has its own exit code.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name. Raises a usage error for a folder in place of a file."""
        if self.name == "file" and os.path.isdir(value):
            self.fail(f"File {value!r} is a directory.", param, ctx)
        return value

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Let the shell complete a path."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Parsed(_ParamType):
    """A click type for arguments that uses a parser function."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text. Raises a usage error for invalid text."""
        try:
            return self.parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Value(_ParamType):
    """A click type for an option, made from its field's declaration."""

    def __init__(self, field: Field) -> None:
        self.field = field
        parse = field.opt.parse
        # The type's name as listed in ci/public.txt: size, when, integer, text.
        self.name = parse.__name__.removeprefix("parse_") if parse else _NAMES[field.kind]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text. Raises a usage error if it's invalid or out of range."""
        if not isinstance(value, str):  # the default value
            return value
        opt, kind = self.field.opt, self.field.kind
        try:
            found = opt.parse(value) if opt.parse else _NUMBERS.get(kind, str)(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a valid {_NAMES[kind]}.", param, ctx)
        if not self.field.in_range(found):
            bounds = f"between {opt.least:,} and {opt.most:,}" if opt.most is not None else ""
            self.fail(
                f"{value} is {f'not {bounds}' if bounds else f'below {opt.least}'}", param, ctx
            )
        # A number above any count means all.
        return min(found, MOST) if kind in _NUMBERS and not opt.parse else found

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete a value; after a comma, complete the next one."""
        from click.shell_completion import CompletionItem  # imported late: only for completion

        done, comma, begun = incomplete.rpartition(",")
        return [
            CompletionItem(done + comma + one)
            for one in self.field.opt.among()
            if one.lower().startswith(begun.lower())
        ]


def _by_instead(key: str, ctx: click.Context | None) -> str:
    """Say what to use for a condition that is a way to group, such as `category=activations`."""
    from memreplay.analysis.groups.ways import WAYS  # imported late: only for errors

    flags = set() if ctx is None else {flag for one in ctx.command.params for flag in one.opts}
    if key not in WAYS or "--by" not in flags:
        return ""
    if WAYS[key].code and "--include" in flags:
        return "; use --include REGEX for code"
    return f"; use --by {key} to show each {key}"


class Keyed(_ParamType):
    """A click type for one key of a shared option, with the key's value."""

    name = "key"

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = {field.key: field for field in fields}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the field and its value. Raises a usage error for an unknown key."""
        if not isinstance(value, str):
            return value
        key, equals, text = value.partition("=")
        field = self.fields.get(key)
        asked = ", ".join(map(_asked, self.fields.values()))
        if field is None:
            self.fail(
                f"unknown key {key!r}; known keys: {asked}{_by_instead(key, ctx)}", param, ctx
            )
        if field.kind is bool:
            if equals:
                self.fail(f"{key} takes no value", param, ctx)
            return field, True
        if not text:
            self.fail(f"{key} needs a value: {_asked(field)}", param, ctx)
        try:
            return field, Value(field).convert(text, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{key}: {error.message}", param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Complete a key."""
        from click.shell_completion import CompletionItem  # imported late: only for completion

        keys = (f"{key}{'' if one.kind is bool else '='}" for key, one in self.fields.items())
        return [CompletionItem(key) for key in keys if key.startswith(incomplete)]


_NUMBERS: dict[Any, Callable[[str], Any]] = {int: int, float: float}
_NAMES = {int: "integer", float: "number", str: "text"}
