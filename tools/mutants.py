"""Break the codec on purpose, one small change at a time, and see whether the tests notice.

    python tools/mutants.py [--count N | --all | --only FILE] [--jobs N] [--results FILE]

A mutant is one change of one expression: a comparison, an operator, a constant, the name of a
choice, an `if` that is never or always taken, two branches swapped.  It is made in a scratch copy
of the project; the tree is not touched.  There the fast tests run first, the wider ones only when
those see nothing.  A mutant that no test sees has survived; tests/mutation/survivors.txt gives the
reason for each.  Tests that run ten times as long as they should count as a kill.

A mutant is known by what it changes, not by its line, so that lists of them outlive other edits::

    policy.py Policy.max_code: 'negative and row.signed' -> 'negative or row.signed' #1

Source: DeMillo, Lipton and Sayward, Hints on Test Data Selection, 1978.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "feather_ref"
LISTS = ROOT / "tests" / "mutation"
FILES = ("rounding.py", "policy.py", "_parts.py", "codec.py", "_fast.py", "packing.py")
COUNT, SEED = 200, 1

# What runs first, and what runs when that has seen nothing; -x stops at the first failure.
FAST = {
    "policy.py": ["test_policy.py", "test_literals.py"],
    "packing.py": ["test_packing.py"],
    "codec.py": ["test_codec_errors.py", "test_literals.py"],
    "_fast.py": ["test_fast.py"],
}
OFTEN = ["test_literals.py", "test_survivors.py"]
WIDE = [
    "test_policy.py", "test_literals.py", "test_survivors.py", "test_codec_errors.py", "test_packing.py",
    "test_report.py", "test_codec_sources.py", "test_fast.py", "test_strategies.py", "test_codec_exhaustive.py",
]  # fmt: skip
SLOW = "not test_wide_targets and not packed_shapes"

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
    where: str
    start: int
    end: int
    old: str
    new: str
    number: int = 1

    @property
    def key(self) -> str:
        """What the lists call it."""
        return f"{self.file} {self.where}: {self.old!r} -> {self.new!r} #{self.number}"

    def apply(self, source: bytes) -> bytes:
        """The mutated file."""
        return source[: self.start] + self.new.encode() + source[self.end :]


# --- making mutants ---------------------------------------------------------------------------


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


class Finder(ast.NodeVisitor):
    """Collects the mutants of one file, in the order of the source."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.scope: list[str] = []
        self.found: list[Mutant] = []
        self.seen: Counter[tuple[str, str, str]] = Counter()

    def add(self, node: ast.expr, new: str) -> None:
        """One mutant: `node` becomes `new`."""
        start = self.lines[node.lineno - 1] + node.col_offset
        end = self.lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old, where = ast.unparse(node), ".".join(self.scope) or "module"
        self.seen[where, old, new] += 1
        self.found.append(Mutant(self.file, where, start, end, old, new, self.seen[where, old, new]))

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            for change in changes(node):
                text = ast.unparse(change)
                self.add(node, text if isinstance(change, ast.Constant | ast.Call) else f"({text})")
        if isinstance(node, ast.If):
            self.add(node.test, "False")
            self.add(node.test, "True")
        super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        if any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list):
            return
        self.scope.append(node.name)
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)  # not the annotations, nor the decorators: the size of a cache changes no result
        self.scope.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        self.scope.append(node.name)
        for part in node.body:
            self.visit(part)
        self.scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if node.value:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.visit(node.value)

    def skip(self, node: ast.AST) -> None:
        """Messages, imports and types; whether an error is raised is the `if` above it."""

    visit_Raise = visit_Import = visit_ImportFrom = visit_JoinedStr = skip


class _NoTypes(ast.NodeTransformer):
    """Literal[...] and get_args(...) are types."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:  # noqa: N802
        return None if isinstance(node.value, ast.Subscript) else node


def mutants_of(file: str) -> list[Mutant]:
    """Every mutant of one file of the package."""
    source = (PACKAGE / file).read_bytes()
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript))]
    finder = Finder(file, source)
    finder.visit(tree)
    return finder.found


# --- judging them -----------------------------------------------------------------------------


class Scratch:
    """A copy of what the tests need, in which one mutant at a time is put."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignore = shutil.ignore_patterns("__pycache__", "mutation")
        for name in ("feather_ref", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", folder)
        self.clock = int(time.time())

    def put(self, file: str, source: bytes) -> None:
        """Write a file of the package, with a time of its own: a compiled copy must not outlive it."""
        path = self.folder / "feather_ref" / file
        path.write_bytes(source)
        self.clock += 10
        os.utime(path, (self.clock, self.clock))

    def passes(self, tests: list[str], timeout: float) -> bool:
        """Whether the tests pass in time."""
        paths = [f"tests/ref/{name}" for name in tests if (self.folder / "tests" / "ref" / name).exists()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-k", SLOW, *paths]
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (0, 1, 2, 3):  # 2: the mutant cannot even be imported
            raise RuntimeError(f"pytest gave {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode == 0


def stages(file: str) -> list[list[str]]:
    """The tests for mutants of a file, the fast ones first."""
    first = FAST.get(file, OFTEN)
    return [first, [name for name in WIDE if name not in first]]


def survives(mutant: Mutant, scratch: Scratch, seconds: dict[str, float]) -> bool:
    """Put the mutant into the scratch copy, run the tests, take it out again."""
    source = (PACKAGE / mutant.file).read_bytes()
    scratch.put(mutant.file, mutant.apply(source))
    try:
        return all(scratch.passes(tests, 10 * seconds[" ".join(tests)]) for tests in stages(mutant.file))
    finally:
        scratch.put(mutant.file, source)


def judge(mutants: list[Mutant], jobs: int, say: bool = True) -> list[Mutant]:
    """The survivors, in order.  Raises RuntimeError where the tests fail without any mutant."""
    with tempfile.TemporaryDirectory() as folder:
        scratches: SimpleQueue[Scratch] = SimpleQueue()
        first = Scratch(Path(folder) / "0")
        seconds = baseline(first, {mutant.file for mutant in mutants})
        for scratch in (first, *(Scratch(Path(folder) / str(i)) for i in range(1, jobs))):
            scratches.put(scratch)

        def work(mutant: Mutant) -> bool:
            scratch = scratches.get()
            alive = survives(mutant, scratch, seconds)
            scratches.put(scratch)
            if say:
                print("SURVIVED" if alive else "killed  ", mutant.key, flush=True)
            return alive

        with ThreadPoolExecutor(jobs) as pool:
            return [m for m, alive in zip(mutants, pool.map(work, mutants), strict=True) if alive]


def baseline(scratch: Scratch, files: set[str]) -> dict[str, float]:
    """Seconds of each set of tests on the code as it is."""
    seconds: dict[str, float] = {}
    for tests in {" ".join(tests): tests for file in sorted(files) for tests in stages(file)}.values():
        start = time.perf_counter()
        if not scratch.passes(tests, 1200):
            raise RuntimeError(f"{' '.join(tests)}: fails without a mutant")
        seconds[" ".join(tests)] = max(time.perf_counter() - start, 10)
    return seconds
