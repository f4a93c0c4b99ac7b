"""List the public interface in ci/public.txt, one name per line, so that a diff shows changes.

    python -m ci.public            write the list; refuse if a change would break users
    python -m ci.public --drop     write it anyway: for unreleased names, or a new schema number
    python -m ci.public --check    print the differences from the committed list, and exit with 1

docs/versions.md describes the promises.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import click
import msgspec

import memreplay
from ci import schemas
from memreplay import errors
from memreplay.commands.app import app
from memreplay.commands.shared import errors as command_errors
from memreplay.commands.shared.declaring import Keyed
from memreplay.commands.shared.listed import COMMANDS
from memreplay.export.tables import schema as tables

ROOT = Path(__file__).resolve().parent.parent
LISTED = ROOT / "ci" / "public.txt"
LIBRARY = ROOT / "docs" / "library.md"
HEAD = "# The public interface, written by `make public`; docs/versions.md has the promises.\n"
# How many words at the start of a line identify its subject. The rest is detail.
WIDTH = {
    "name": 2,
    "parameter": 3,
    "order": 2,
    "option": 3,
    "word": 4,
    "default": 3,
    "exit": 2,
    "schema": 2,
    "key": 2,
    "column": 2,
}
CHOICES = "one of "
REQUIRED = "required"
MAY_CHANGE = ("--top",)  # defaults that only affect how much is shown


def main() -> int:
    """Write the list, or print why not."""
    before, now = _lines(LISTED), list(public_lines())
    said = []
    if "--check" in sys.argv[1:] and before != now:
        gone, new = set(before) - set(now), set(now) - set(before)
        said = [*(f"- {line}" for line in sorted(gone)), *(f"+ {line}" for line in sorted(new))]
        said = [*(said or ["the order of lines"]), f"{LISTED.name} is out of date: make public"]
    elif "--check" not in sys.argv[1:]:
        if "--drop" not in sys.argv[1:]:
            said = list(breaks(before, now))
        if not said:
            LISTED.write_text(HEAD + "".join(f"{line}\n" for line in now), encoding="utf-8")
    sys.stdout.write("".join(f"{line}\n" for line in said))
    return int(bool(said))


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def public_lines() -> Iterator[str]:
    """Yield all lines."""
    yield from python_names()
    yield from command_lines()
    yield from exit_codes()
    yield from json_schemas()
    yield from table_columns()


# ---- breaking changes


def breaks(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """Yield a line for each use that worked with `before` and doesn't with `now`."""
    old, new = _by_subject(before), _by_subject(now)
    for subject, detail in old.items():
        kind, *words = subject.split()
        if kind in ("schema", "key"):
            continue  # handled below, because a new version number allows changes
        if kind == "default" and detail == REQUIRED and subject not in new:
            continue  # it's now optional, or another line reports that it was removed
        if subject not in new:
            yield f"{subject} was removed: see docs/versions.md"
        elif kind == "order":
            if not f"{new[subject]} ".startswith(f"{detail} "):
                yield f"{subject} was `{detail}`, now `{new[subject]}`: add new ones at the end"
        elif not _still_takes(detail, new[subject]):
            yield f"{subject} was `{detail}`, now `{new[subject]}`"
    for subject, detail in new.items():
        kind, *words = subject.split()
        is_needed = kind == "parameter" and detail == REQUIRED and subject not in old
        if is_needed and f"name {words[0]}" in old:
            yield f"{subject} is new, and required: give it a default"
        has_to_be = kind == "default" and detail == REQUIRED and subject not in old
        if has_to_be and f"name memreplay:{words[0]}" in old:
            yield f"{' '.join(words)} is now required"
    yield from _broken_schemas(old, new)


def _broken_schemas(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    """Yield keys that were removed or have another type, in schemas with the same number."""
    for subject, records in old.items():
        kind, *words = subject.split()
        if kind != "schema":
            continue
        name, _, number = words[0].rpartition("/")
        if subject not in new:
            if not any(re.fullmatch(rf"schema {re.escape(name)}/\d+", one) for one in new):
                yield f"{subject} was removed: keep writing it for one more minor version"
            elif not any(int(one.rpartition("/")[2]) > int(number) for one in _numbers(new, name)):
                yield f"{subject} was removed without a higher number"
            continue
        for record in (words[0], *records.split()):
            for key, was in old.items():
                if not key.startswith(f"key {record}."):
                    continue
                if key not in new:
                    yield f"{key} of {words[0]} was removed: raise the number"
                elif not _still_takes(was, new[key]):
                    yield f"{key} of {words[0]} was {was}, now {new[key]}: raise the number"


def _numbers(lines: dict[str, str], name: str) -> list[str]:
    return [one for one in lines if re.fullmatch(rf"schema {re.escape(name)}/\d+", one)]


def _still_takes(was: str, now: str) -> bool:
    """Return whether a detail still allows everything that it did before. Choices and a default may
    be added.
    """
    if was.startswith(CHOICES) and now.startswith(CHOICES):
        return set(was.removeprefix(CHOICES).split("|")) <= set(
            now.removeprefix(CHOICES).split("|")
        )
    return was in (now, REQUIRED)


def _by_subject(lines: Iterable[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        words = line.split(" ")
        width = WIDTH[words[0]]
        found[" ".join(words[:width])] = " ".join(words[width:])
    return found


# ---- Python


def python_names() -> Iterator[str]:
    """Yield the package's names, their parameters, and the members of documented classes."""
    # The page refers to attributes as `name` or .name.
    documented = set(re.findall(r"[`.](\w+)", LIBRARY.read_text(encoding="utf-8")))
    for name in sorted(memreplay.__all__):
        if name == "__version__":
            continue
        value = getattr(memreplay, name)
        kind = "class" if isinstance(value, type) else "function"
        if isinstance(value, type) and issubclass(value, Exception):
            yield f"name {name} error {value.__base__.__name__ if value.__base__ else ''}"
            continue
        yield f"name {name} {kind}"
        if not _is_only_made_by_others(value):
            yield from _parameters(name, value)
        if isinstance(value, type):
            yield from _members(name, value, documented)


def _is_only_made_by_others(value: Any) -> bool:
    return value in (memreplay.Snapshot, memreplay.Replay, memreplay.Usage, memreplay.PageView)


_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(name: str, function: Any) -> Iterator[str]:
    if isinstance(function, type) and issubclass(function, msgspec.Struct):
        yield from _fields(name, function)
        return
    parameters = inspect.signature(function).parameters.values()
    # Parameters that can be passed by position, in order.
    placed = [one.name for one in parameters if one.kind in _PLACED and one.name != "self"]
    if placed:
        yield f"order {name} {' '.join(placed)}"
    for parameter in parameters:
        if parameter.name == "self":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"parameter {name} {str(parameter).partition(':')[0]}"
        elif parameter.default is parameter.empty:
            yield f"parameter {name} {parameter.name} {REQUIRED}"
        else:
            yield f"parameter {name} {parameter.name} = {_plain(parameter.default)}"


def _fields(name: str, record: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the fields of a record, without their types."""
    fields, defaults = record.__struct_fields__, record.__struct_defaults__
    known = dict(zip(reversed(fields), reversed(defaults), strict=False))
    for field in fields:
        default = known.get(field, msgspec.NODEFAULT)
        default = make() if (make := getattr(default, "factory", None)) else default
        said = REQUIRED if default is msgspec.NODEFAULT else f"= {_plain(default)}"
        yield f"parameter {name} {field} {said}"


def _plain(value: object) -> str:
    """Return a default's repr without memory addresses, which differ from run to run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace("\n", " ")


def _members(name: str, kind: type, documented: set[str]) -> Iterator[str]:
    found = {one for one in dir(kind) if not one.startswith("_")} | _assigned(kind)
    if issubclass(kind, msgspec.Struct):
        found -= set(kind.__struct_fields__)  # a struct's fields are its parameters
    if issubclass(kind, tuple):
        found -= {"count", "index"}
    for one in sorted(found & documented):
        member = getattr(kind, one, None)
        yield f"name {name}.{one} {'method' if callable(member) else 'attribute'}"
        if isinstance(member, FunctionType):
            yield from _parameters(f"{name}.{one}", member)


def _assigned(kind: type) -> set[str]:
    """Return the attributes that the `__init__` of a class in the package sets."""
    begin = kind.__dict__.get("__init__")
    if not isinstance(begin, FunctionType) or not Path(begin.__code__.co_filename).is_file():
        return set()  # generated by dataclasses
    tree = ast.parse(textwrap.dedent(inspect.getsource(begin)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not node.attr.startswith("_")
    }


# ---- commands


def command_lines() -> Iterator[str]:
    """Yield commands with their options and arguments."""
    with click.Context(app) as context:
        yield from _options("memreplay", app)
        for name in sorted(COMMANDS):
            command = app.get_command(context, name)
            assert command is not None
            yield from _options(name, command)


def _options(name: str, command: click.Command) -> Iterator[str]:
    yield f"name memreplay:{name} command"
    for param in command.params:
        yield from _default(name, param)
        if isinstance(param, click.Option):
            if not param.hidden:
                for spelled in (*param.opts, *param.secondary_opts):
                    yield f"option {name} {spelled} {_takes(param)}"
                if isinstance(param.type, Keyed):
                    for key in param.type.fields:
                        yield f"word {name} {param.opts[0]} {key}"
        else:
            yield f"option {name} {(param.name or '').upper()} {_takes(param)}"


def _default(name: str, param: click.Parameter) -> Iterator[str]:
    """Yield an option's default, if it has a value."""
    is_option = isinstance(param, click.Option)
    if getattr(param, "hidden", False):
        return
    called = max(param.opts, key=len) if is_option else (param.name or "").upper()
    if param.required:
        yield f"default {name} {called} {REQUIRED}"
    elif called in MAY_CHANGE or param.default is False:
        return
    elif isinstance(param.default, (str, int, float)):
        yield f"default {name} {called} = {_plain(param.default)}"


def _takes(param: click.Parameter) -> str:
    if isinstance(param.type, click.Choice):
        return CHOICES + "|".join(map(str, param.type.choices))
    if getattr(param, "is_flag", False):
        return "flag"
    many = ", many" if param.multiple or param.nargs == -1 else ""
    return f"{param.type.name.lower().replace(' ', '-')}{many}"


def exit_codes() -> Iterator[str]:
    """Yield the exit codes."""
    codes: dict[int, list[str]] = {0: ["fine"], command_errors.NOT_TRUSTED: ["finding"]}
    for one in vars(errors).values():
        if isinstance(one, type) and issubclass(one, errors.MemreplayError):
            codes.setdefault(one.exit_code, []).append(one.__name__)
    codes[command_errors.INTERRUPTED] = ["interrupted"]
    codes[command_errors.PIPE_CLOSED] = ["pipe"]
    for code, words in sorted(codes.items()):
        yield f"exit {code} {CHOICES}{'|'.join(sorted(words))}"


# ---- JSON and tables


def json_schemas() -> Iterator[str]:
    """Yield schemas with their records, and each record's keys once."""
    keys: dict[str, str] = {}
    lines = []
    for _, schema in sorted(schemas.all_schemas().items()):
        records = schema.get("$defs", {})
        lines.append(f"schema {schema['title']} {' '.join(sorted(records))}".rstrip())
        for record, part in {schema["title"]: schema, **records}.items():
            for key, value in part.get("properties", {}).items():
                there = "" if key in part["required"] else "?"
                kind = f"{_kind(value)}{there}"
                was = keys.setdefault(f"{record}.{key}", kind)
                assert was == kind, f"two records are called {record}, and differ in {key}"
    yield from lines
    for key, kind in sorted(keys.items()):
        yield f"key {key} {kind}"


def _kind(value: dict[str, Any]) -> str:
    """Return a short form of a type: integer|null, Group[]."""
    if "$ref" in value:
        return str(value["$ref"].rpartition("/")[2])
    if "anyOf" in value:
        return "|".join(map(_kind, value["anyOf"]))
    if "const" in value:
        return f"={value['const']}"
    if "enum" in value:
        return CHOICES + "|".join("null" if one is None else str(one) for one in value["enum"])
    kind = value.get("type", "any")
    if isinstance(kind, list):
        return "|".join(kind)
    if kind == "array":
        if "prefixItems" in value:
            return f"[{','.join(map(_kind, value['prefixItems']))}]"
        return f"({_kind(value.get('items') or {})})[]"
    if kind == "object" and value.get("additionalProperties"):
        return f"{{{_kind(value['additionalProperties'])}}}"
    return str(kind)


def table_columns() -> Iterator[str]:
    """Yield the columns of exported tables, with their schema number."""
    named = {**tables.TABLES, "flat": tables.FLAT}
    for name, table in sorted(named.items()):
        for column in table.columns:
            null = "?" if column.nullable else ""
            yield f"column {name}/{tables.VERSION}.{column.name} {column.type}{null}"


if __name__ == "__main__":
    sys.exit(main())
