"""Write the package's types for type checkers and editors: src/memreplay/__init__.pyi.

    python -m ci.signatures            write it
    python -m ci.signatures --check    print how it differs, and exit with 1

Options are declared as fields of records, which a type checker can't turn into keywords. The stub
lists them: the types that each function accepts, including text such as "2%" or "category,file".
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import subprocess
import sys
import textwrap
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from msgspec import Struct

import memreplay
from memreplay.analysis.selecting.answering import Choosing, Signature
from memreplay.declared import Field, declared

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "src" / "memreplay" / "__init__.pyi"
HEAD = '"""Types of the public names. Written by `make public` from the declarations."""\n\n'
# A function that takes a snapshot also takes what `memreplay.open` opens.
OPENED = "Snapshot | str | bytes | os.PathLike[str]"


def main() -> int:
    """Write the stub, or compare it."""
    made = stub()
    if "--check" not in sys.argv[1:]:
        STUB.write_text(made, encoding="utf-8")
        return 0
    before = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    lines = list(difflib.unified_diff(before.splitlines(), made.splitlines(), lineterm=""))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(lines))


def stub() -> str:
    """Return the stub, as ruff formats it."""
    names = Names()
    public = {name: getattr(memreplay, name) for name in memreplay.__all__}
    ours = {name: value for name, value in public.items() if _takes_options(value)}
    for name in public.keys() - ours.keys():
        home, _, there = memreplay._HOME[name].partition(":")
        names.exported(f"memreplay.{home}", there or name, name)
    functions = [_function(name, value, names) for name, value in ours.items()]
    listed = "".join(f"    {name!r},\n" for name in memreplay.__all__)
    rest = [
        "_HOME: dict[str, str]\n",
        "def load_ipython_extension(shell: object) -> None: ...",
        "def unload_ipython_extension(shell: object) -> None: ...",
    ]
    parts = [HEAD, names.imports(), f"\n__all__ = [\n{listed}]\n", *functions, *rest]
    for command in (("check", "--fix-only", "--select=I,F401,UP"), ("format",)):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", f"--stdin-filename={STUB}", "-"]
        done = subprocess.run(
            ruff, input="\n".join(parts), capture_output=True, text=True, check=True, cwd=ROOT
        )
        parts = [done.stdout]
    return parts[0]


def _takes_options(value: object) -> bool:
    return isinstance(inspect.getattr_static(value, "__signature__", None), Signature)


class Names:
    """The names that the stub imports."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = defaultdict(set)
        self._public: set[str] = set()

    def exported(self, module: str, there: str, name: str) -> None:
        """Add a public name. `import X as X` is how a stub exports it."""
        self._found[module].add(f"{there} as {name}")
        self._public.add(name)

    def add(self, module: str, name: str) -> None:
        """Add a name that an annotation uses."""
        if name not in self._public:
            self._found[module].add(name)

    def imports(self) -> str:
        """Return all import statements."""
        lines = ["import os\n"]
        for module, names in sorted(self._found.items()):
            lines += [f"from {module} import {name}\n" for name in sorted(names)]
        return "".join(lines)

    def within(self, annotation: str, module: types.ModuleType) -> str:
        """Return a module's annotation, after adding the names in it."""
        known = _imported(module)
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if not isinstance(node, ast.Name) or hasattr(builtins, node.id):
                continue
            if node.id != "os":
                self.add(*known.get(node.id, (module.__name__, node.id)))
        return annotation

    def of(self, kind: Any, module: types.ModuleType) -> str:
        """Return a type as text, after adding its names. `module`: where it's used."""
        if kind is None or kind is type(None):
            return "None"
        if get_origin(kind) is Literal:
            alias = _alias(kind, module)
            if alias:
                self.add(alias[0], alias[1])
                return alias[1]
            self.add("typing", "Literal")
            return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
        if get_origin(kind) in (Union, types.UnionType):
            return " | ".join(self.of(one, module) for one in get_args(kind))
        if get_origin(kind) is tuple:
            inside = ("..." if one is ... else self.of(one, module) for one in get_args(kind))
            return f"tuple[{', '.join(inside)}]"
        if kind.__module__ != "builtins":
            self.add(kind.__module__, kind.__name__)
        return str(kind.__name__)


def _imported(module: types.ModuleType) -> dict[str, tuple[str, str]]:
    """Return where each name that a module imports comes from, even if only type checkers see the
    import.
    """
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                found[one.asname or one.name] = (node.module, one.name)
    return found


def _alias(kind: Any, module: types.ModuleType) -> tuple[str, str] | None:
    """Return the name under which a module knows a type."""
    for name, value in vars(module).items():
        if value == kind and not name.startswith("_"):
            return _imported(module).get(name, (module.__name__, name))
    return None


def _function(name: str, function: Callable[..., Any], names: Names) -> str:
    signature = inspect.getattr_static(function, "__signature__")
    inner, choosing = signature._function, signature._choosing
    module = sys.modules[inner.__module__]
    parts, starred = [], False
    own = inspect.signature(inner)
    for one in own.parameters.values():
        record = choosing.records.get(one.name)
        if record is not None:
            said = f"{names.of(type(record), module)} | None = ..."
        else:
            said = names.within(str(one.annotation), module)
            words = said.split(" | ")
            if "Snapshot" in words and one.default is one.empty:
                said = " | ".join([OPENED, *(word for word in words if word != "Snapshot")])
            said += "" if one.default is one.empty else " = ..."
        if one.kind is one.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(f"{one.name}: {said}")
    keywords = [f"{one}: {said} = ..." for one, said in _keywords(own.parameters, choosing, names)]
    parts += [*([] if starred or not keywords else ["*"]), *keywords]
    back = names.within(str(own.return_annotation), module)
    # The doc string is for editors.
    said = textwrap.indent(f'"""{inspect.getdoc(inner)}\n"""', "    ")
    return f"def {name}({', '.join(parts)},) -> {back}:\n{said}\n"


def _keywords(own: Iterable[str], choosing: Choosing, names: Names) -> Iterator[tuple[str, str]]:
    """Yield each keyword and the types that it accepts."""
    seen = {*own}
    for record in choosing.records.values():
        kind = type(record)
        module = sys.modules[kind.__module__]
        unused = choosing._unused(record)
        options = {field.name: field for field in declared(kind)}
        for name in dict.fromkeys((*options, *kind.__struct_fields__)):
            if name in unused or name in seen:
                continue
            seen.add(name)
            if name in options:
                yield name, _accepted(options[name], names, module)
            else:
                yield name, _plain(kind, name, names)


def _accepted(field: Field, names: Names, module: types.ModuleType) -> str:
    """Return the types that an option's keyword accepts."""
    opt = field.opt
    # A text with several values can't be a Literal.
    said = ["str" if field.values and opt.joined else names.of(field.kind, module)]
    if opt.parse and field.kind is not str:
        said.append("str")
    if opt.path:
        said.append("os.PathLike[str]")
    if field.kind is str and opt.among is not tuple:  # by=["category", "file"]
        names.add("collections.abc", "Sequence")
        said.append("Sequence[str]")
    one = " | ".join(dict.fromkeys(" | ".join(said).split(" | ")))
    if field.many:
        names.add("collections.abc", "Iterable")
        one = f"{one} | Iterable[{one}]"
    return f"{one} | None" if field.optional else one


def _plain(record: type[Struct], name: str, names: Names) -> str:
    """Return the type of a field that isn't an option."""
    owner = next(one for one in record.__mro__ if name in vars(one).get("__annotations__", {}))
    module = sys.modules[owner.__module__]
    said = owner.__annotations__[name]
    return names.within(said, module) if isinstance(said, str) else names.of(said, module)


if __name__ == "__main__":
    sys.exit(main())
