"""Read functions and classes as written in the source: signature, members, docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from typing import Any, NamedTuple, get_args

from memreplay.snapshot import model

WIDTH = 100
# Internal type names, and how to show them to a reader.
ALIASES = {
    name: f"Literal{list(get_args(getattr(model, name)))}"
    for name in ("MeasureName", "MomentKind", "Edge", "AllocationsSort")
}


class Shape(NamedTuple):
    """A name and its documentation."""

    name: str
    doc: str
    signature: str = ""
    """The signature, including the name; empty for a value."""
    kind: str = ""
    """The type of a value."""
    default: str = ""
    """A field's default, as written."""
    is_field: bool = False
    """Whether it's a data field, which the class docstring may describe."""
    members: tuple[Shape, ...] = ()
    bases: tuple[str, ...] = ()
    """Its base classes in memreplay, by public name."""


def shape_of(value: Any, name: str) -> Shape:
    """Return the shape of a public function or class, under its public name."""
    node = _node(value)
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    if isinstance(node, ast.FunctionDef):
        return Shape(name, doc, _signature(name, _with_options(node, value)))
    assert isinstance(value, type)
    members: dict[str, Shape] = {}
    for one in reversed(value.__mro__):
        if one.__module__.startswith("memreplay."):
            members |= {member.name: member for member in _members(_class(one))}
    bases = tuple(
        base.__name__ for base in value.__bases__ if base.__module__ == "memreplay.errors"
    )
    return Shape(
        name, doc, _made(name, node, members), members=tuple(members.values()), bases=bases
    )


@cache
def _class(value: type) -> ast.ClassDef:
    node = _node(value)
    assert isinstance(node, ast.ClassDef)
    return node


class _Bare(ast.NodeTransformer):
    """Replace `Annotated[T, …]` by T."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Return the first argument of an Annotated."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            assert isinstance(node.slice, ast.Tuple)
            return self.visit(node.slice.elts[0])  # type: ignore[no-any-return]
        return self.generic_visit(node)


def _typed(node: ast.expr | None) -> str:
    """Return a type in readable form."""
    text = ast.unparse(_Bare().visit(node)) if node is not None else ""
    text = re.sub(r"NDArray\[np\.(\w+?)_?\]", r"array of \1", text).replace("columns.", "")
    return re.sub(r"\w+", lambda match: ALIASES.get(match[0], match[0]), text)


@cache
def _node(value: Any) -> ast.FunctionDef | ast.ClassDef:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return node


def _made(name: str, node: ast.ClassDef, members: dict[str, Shape]) -> str:
    """Return a class's signature: that of `__init__`, or one built from the fields."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return _spelled(name, _arguments(one, method=True), "")
    fields = [one for one in members.values() if one.is_field]
    return (
        _spelled(
            name,
            [
                f"{one.name}: {one.kind}" + (f" = {one.default}" if one.default else "")
                for one in fields
            ],
            "",
        )
        if fields
        else ""
    )


def _members(node: ast.ClassDef) -> list[Shape]:
    found: list[Shape] = []
    for one, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, ast.FunctionDef):
            found += _assigned(one) if one.name == "__init__" else [_method(one)]
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            default = ast.unparse(one.value) if one.value is not None else ""
            kind = _typed(one.annotation)
            if kind.startswith("ClassVar"):
                continue
            found.append(
                Shape(
                    one.target.id, _string(below), kind=kind, default=_plain(default), is_field=True
                )
            )
    return found


def _plain(default: str) -> str:
    """Return a dataclass field's default, unless it can't be written."""
    return "" if default.startswith("field(") else default


def _method(node: ast.FunctionDef) -> Shape:
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if marks & {"property", "once"}:
        return Shape(node.name, doc, kind=_typed(node.returns))
    return Shape(node.name, doc, _signature(node.name, node, method=True))


def _assigned(node: ast.FunctionDef) -> list[Shape]:
    """Return the attributes that `__init__` sets and documents in a string below."""
    kinds = {
        one.arg: _typed(one.annotation)
        for one in [*node.args.args, *node.args.kwonlyargs]
        if one.annotation is not None
    }
    found = []
    for one, below in zip(node.body, node.body[1:], strict=False):
        if doc := _string(below):
            target, kind = _target(one, kinds)
            if target:
                found.append(Shape(target, doc, kind=kind))
    return found


def _target(node: ast.stmt, kinds: dict[str, str]) -> tuple[str, str]:
    """Return the assigned `self.name` and its type: its annotation, or the argument's."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if not isinstance(target, ast.Attribute):
        return "", ""
    if isinstance(node, ast.AnnAssign):
        return target.attr, _typed(node.annotation)
    value = getattr(node, "value", None)
    return target.attr, kinds.get(value.id, "") if isinstance(value, ast.Name) else ""


def _string(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return inspect.cleandoc(node.value.value) if isinstance(node.value.value, str) else ""
    return ""


def _with_options(node: ast.FunctionDef, value: Any) -> ast.FunctionDef:
    """Return the function with the keywords that its records declare (memreplay.declared)."""
    signature: inspect.Signature | None = getattr(value, "__signature__", None)
    if signature is None:
        return node
    text = re.sub(r"typing\.|memreplay(\.\w+)+\.", "", str(signature)).partition(" -> ")[0]
    found = ast.parse(f"def f{text}: ...").body[0]
    assert isinstance(found, ast.FunctionDef)
    found.returns = node.returns
    return found


def _signature(name: str, node: ast.FunctionDef, *, method: bool = False) -> str:
    returns = f" -> {_typed(node.returns)}" if node.returns is not None else ""
    return _spelled(name, _arguments(node, method=method), returns)


def _arguments(node: ast.FunctionDef, *, method: bool) -> list[str]:
    spec = node.args
    if method and spec.args and spec.args[0].arg in ("self", "cls"):
        spec = ast.arguments(
            spec.posonlyargs,
            spec.args[1:],
            spec.vararg,
            spec.kwonlyargs,
            spec.kw_defaults,
            spec.kwarg,
            spec.defaults,
        )
    found = []
    bare = [None] * (len(spec.args) - len(spec.defaults)) + [*spec.defaults]
    for one, default in zip(spec.args, bare, strict=True):
        found.append(_argument(one, default))
    if spec.vararg is not None:
        found.append(f"*{_argument(spec.vararg, None)}")
    elif spec.kwonlyargs:
        found.append("*")
    for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        found.append(_argument(one, default))
    if spec.kwarg is not None:
        # The page documents the fields of a Selection once.
        of_selection = (
            ast.unparse(spec.kwarg.annotation) == "Unpack[Choices]"
            if spec.kwarg.annotation
            else False
        )
        found.append(f"**{spec.kwarg.arg}" if of_selection else f"**{_argument(spec.kwarg, None)}")
    return found


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_typed(one.annotation)}" if one.annotation is not None else ""
    if default is None:
        return f"{one.arg}{kind}"
    return f"{one.arg}{kind} = {ast.unparse(default)}"


def _spelled(name: str, arguments: list[str], returns: str) -> str:
    """Format a signature on one line if it fits, otherwise with one line per argument."""
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inner}){returns}"
