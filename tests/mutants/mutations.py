"""The small changes that can be made to a Python file, as positions and replacements."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
CALLED = {"max": "min", "min": "max", "any": "all", "all": "any"}
# Fields that nobody would confuse, although one name ends with the other.
SUFFIXES = ("_bytes", "_count", "_event", "_us", "_total", "count", "bytes")


@dataclass(frozen=True)
class Mutation:
    """A change: bytes `start` to `stop` in the file change from `old` to `new`."""

    line: int
    start: int
    stop: int
    old: str
    new: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.stop :]


def mutations(source: bytes) -> list[Mutation]:
    """Return all possible changes to a file, in order, except in types, strings and decorators."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []
    for node, new in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = lines[node.lineno - 1] + node.col_offset
        stop = lines[node.end_lineno - 1] + node.end_col_offset
        old = source[start:stop].decode()
        found.append(Mutation(node.lineno, start, stop, old, new))
    return sorted(set(found), key=lambda one: (one.start, one.stop, one.new))


Node = ast.expr | ast.stmt


def _changes(tree: ast.Module) -> Iterator[tuple[Node, str]]:
    for node in _code(tree):
        if isinstance(node, ast.Compare):
            for k, op in enumerate(node.ops):
                ops = [*node.ops[:k], COMPARED[type(op)](), *node.ops[k + 1 :]]
                yield node, _text(ast.Compare(node.left, ops, node.comparators))
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, _text(ast.BoolOp(other, node.values))
        elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
            yield node, _text(ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, _text(node.operand)
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield node, str(not node.value)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, str(node.value + 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in CALLED:
                yield node.func, CALLED[node.func.id]
        elif isinstance(node, ast.IfExp):
            yield node, _text(ast.IfExp(node.test, node.orelse, node.body))
        elif isinstance(node, ast.If | ast.While) and isinstance(
            node.test, ast.Name | ast.Attribute | ast.Call
        ):
            yield node.test, f"not {_text(node.test)}"
        elif isinstance(node, ast.AugAssign) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield node, "pass"
        if isinstance(node, ast.FunctionDef):
            yield from _swapped_fields(node)


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes to change: no types, decorators, assertions or f-strings. Positions inside
    f-strings are unknown before Python 3.12.
    """
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.pattern):
                continue
            yield from _code(child)


def _swapped_fields(function: ast.FunctionDef) -> Iterator[tuple[Node, str]]:
    """If several similar fields are read from one value, replace each with the next."""
    fields: dict[tuple[str, str], dict[str, list[ast.Attribute]]] = defaultdict(dict)
    for node in _code(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            suffix = next((one for one in SUFFIXES if node.attr.endswith(one)), None)
            if suffix is not None and isinstance(node.value, ast.Name):
                known = fields[node.value.id, suffix]
                known.setdefault(node.attr, []).append(node)
    for (value, _), of_kind in fields.items():
        names = list(of_kind)
        for name, other in zip(names, [*names[1:], names[0]], strict=True):
            if name != other:
                yield from ((node, f"{value}.{other}") for node in of_kind[name])
