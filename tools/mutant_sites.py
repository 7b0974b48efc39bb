"""Make mutants: one small change of one expression of a Python file, as text.

Changed are a comparison, an operator, a constant, the name of a choice, an `if` that is never or
always taken, two branches swapped.  A mutant is known by what it changes, not by its line, so that
lists of them outlive other edits::

    policy.py.Policy.max_code: 'negative and row.signed' -> '(negative or row.signed)' #1

Source: DeMillo, Lipton and Sayward, Hints on Test Data Selection, 1978.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitOr,
}  # fmt: skip
CALLS = {"minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any", "min": "max", "max": "min"}
CHOICES = (
    ("nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative", "to_odd"),
    ("stochastic_a", "stochastic_b", "stochastic_c"),
    ("saturate", "nonsaturating", "propagate", "ocp_table3", "p3109_satnone"),
    ("canonical", "preserve_sign", "error", "max", "zero"),
    ("abs", "nan"),
    ("keep", "flush_input", "flush_output"),
    ("ieee", "all_ones", "negative_zero", "none"),
    ("float", "integer", "table"),
    ("left", "right"),
    ("little", "big"),
)
SWAPS = {name: group[i - 1] for group in CHOICES for i, name in enumerate(group)}


@dataclass(frozen=True)
class Mutant:
    """One change: source[start:end] of a file becomes `new`."""

    file: str
    where: str  # file and function
    old: str
    new: str
    number: int  # of the same change in the same function
    start: int
    end: int

    @property
    def key(self) -> str:
        """What the lists call it."""
        return f"{self.where}: {self.old!r} -> {self.new!r} #{self.number}"

    def apply(self, source: bytes) -> bytes:
        """The mutated file."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def changes(node: ast.AST) -> Iterator[ast.expr]:
    """What may stand in the place of an expression."""
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in COMPARE:
            yield ast.Compare(left, [COMPARE[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in BINARY:
            yield ast.BinOp(left, BINARY[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.Not() | ast.Invert() | ast.USub(), operand):
            yield operand
        case ast.IfExp(test, body, other):
            yield ast.IfExp(test, other, body)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(str(value)) if value in SWAPS:
            yield ast.Constant(SWAPS[value])
        case ast.Call(ast.Attribute(value, "where"), [test, one, other], []):
            yield ast.Call(ast.Attribute(value, "where"), [test, other, one], [])
        case ast.Call(ast.Attribute(value, name), args, keywords) if name in CALLS:
            yield ast.Call(ast.Attribute(value, CALLS[name]), args, keywords)
        case ast.Call(ast.Name(name), args, keywords) if name in CALLS:
            yield ast.Call(ast.Name(CALLS[name]), args, keywords)


def sites(node: ast.AST, where: str) -> Iterator[tuple[str, ast.expr, str]]:
    """(where, an expression, what to put in its place), in the order of the source.

    Left out: docstrings, messages (whether an error is raised is the `if` above it), imports, types,
    and decorators (the size of a cache changes no result).
    """
    parts: Sequence[ast.AST]
    match node:
        case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Expr(ast.Constant()):
            return
        case ast.FunctionDef(name, args, body, decorators):
            overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in decorators)
            parts = [] if overload else [*args.defaults, *filter(None, args.kw_defaults), *body]
            where = f"{where}.{name}"
        case ast.ClassDef(name=name, body=body):
            parts, where = body, f"{where}.{name}"
        case ast.AnnAssign(value=value) | ast.AugAssign(value=value):
            parts = [value] if value else []
        case _:
            parts = [*ast.iter_child_nodes(node)]
    if isinstance(node, ast.expr):
        for change in changes(node):
            text = ast.unparse(change)
            yield where, node, text if isinstance(change, ast.Constant | ast.Call) else f"({text})"
    if isinstance(node, ast.If):
        yield from ((where, node.test, "False"), (where, node.test, "True"))
    for part in parts:
        yield from sites(part, where)


def is_type(node: ast.stmt) -> bool:
    """Whether a line of a module names a type, as in `Nan = NanName | int` and `Order = Literal[...]`."""
    if not isinstance(node, ast.Assign):
        return False
    either = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
    return either or isinstance(node.value, ast.Subscript)


def mutants_of(package: Path, file: str) -> list[Mutant]:
    """Every mutant of one file of the package."""
    source = (package / file).read_bytes()
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not is_type(node)]
    lines = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]  # where each begins
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for where, node, new in sites(tree, file):
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        change = where, ast.unparse(node), new
        seen[change] += 1
        found.append(Mutant(file, *change, seen[change], start, end))
    return found
