"""Which golden vectors there are: rows of id parts, each with its level and the reason for it.

    <level>/<family>/<op>.<from>.<to>.<round>.<overflow>[.<choice>=<option>].<shape>

Source: the layout is described in data/golden/README.md; each format's row names its standard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import golden_cases
from feather_ref import golden
from feather_ref.formats import FORMATS, Format, get_format, p3109_formats

ROUNDS = ("rne", "rna", "rtz", "rup", "rdn", "rodd")
DRAFT = "draft/p3109-4.0"

# Who defines a format: (level, family); a row that is not here is "derived", in the family of its kind.
LEVELS = {
    "e4m3": ("must", "ofp8"), "e5m2": ("must", "ofp8"),
    "e3m2": ("must", "mx"), "e2m3": ("must", "mx"), "e2m1": ("must", "mx"),
    "e8m0": ("must", "mx"), "mxint8": ("must", "mx"),
    "fp16": ("must", "ieee"), "bf16": ("vendor/intel", "float"), "tf32": ("vendor/nvidia", "float"),
    "e4m3fnuz": ("vendor/fnuz", "float8"), "e5m2fnuz": ("vendor/fnuz", "float8"),
    "e4m3b11fnuz": ("vendor/ml_dtypes", "float8"), "e4m3ieee": ("vendor/ml_dtypes", "float8"),
    "e3m4": ("vendor/ml_dtypes", "float8"),
    "ue4m3": ("vendor/nvidia", "scale"), "ue5m3": ("vendor/nvidia", "scale"),
    "nf4": ("vendor/qlora", "table"), "fp4_bnb": ("vendor/bitsandbytes", "table"),
}  # fmt: skip

# What the standards say of a conversion: formats, roundings, overflows, level.  The first that fits;
# else a vendor's format is the vendor's in nearest even, and all the rest is "derived".
_OFP8, _ELEMENTS = ("e4m3", "e5m2"), ("e3m2", "e2m3", "e2m1", "mxint8")
CONVERSIONS = (
    (_OFP8, ("rne",), ("sat", "nonsat"), "must"),
    (_OFP8, ROUNDS, ("sat", "nonsat", "table3"), "may"),
    (_ELEMENTS, ("rne",), ("sat",), "must"),
    (("fp16",), ROUNDS[:5], ("nonsat",), "must"),
)
RANKS = ("must", "should", "may", "vendor", "draft", "derived", "alternatives")  # whose file equal bits are

OTHER_ROUNDS_DRAFT = ("binary4p2sf", "binary8p3se", "binary8p4se")
ARITHMETIC = {"e4m3": ("sat", "nonsat"), "e5m2": ("sat", "nonsat"), "e4m3fnuz": ("sat",), "e5m2fnuz": ("sat",)}
SHORT_NAME = {"fp16": "f16", "fp32": "f32"}  # a format's name in an id, where it has another


@dataclass(frozen=True)
class Vector:
    """One id: what is asked of whom, and who says so."""

    level: str
    family: str
    op: str
    src: str
    dst: str
    round: str
    overflow: str
    shape: str
    row: Format
    choices: str = ""  # "negative=abs", "n=2.r=1" ...

    @cached_property
    def id(self) -> str:
        """The name that says what the file means."""
        parts = (self.op, self.src, self.dst, self.round, self.overflow, self.choices, self.shape)
        return ".".join(part for part in parts if part)

    @property
    def own_path(self) -> str:
        """Where the file lies, unless another file with the same bits comes first."""
        return f"{self.level}/{self.family}/{self.id}"

    @cached_property
    def question(self) -> golden.Question:
        """What the id asks."""
        return golden.question(self.id)

    @property
    def stored(self) -> str:
        """The id of the file that answers: every float16 and bfloat16 is a float32."""
        return self.id.replace(f".{self.src}.", ".f32.", 1) if self.shape == "run" else self.id

    @property
    def order(self) -> tuple[int, str]:
        """Of several ids with equal bits the least gives the path."""
        return RANKS.index(self.level.split("/", maxsplit=1)[0]), self.id


def vectors() -> list[Vector]:
    """Every vector, by id."""
    found = [*_decode(), *_conversions(), *_alternatives(), *_digested(), *_draft(), *_stochastic(), *_arithmetic()]
    found += _lists()
    ids = [vector.id for vector in found]
    if len(set(ids)) != len(ids):
        raise ValueError(f"twice: {', '.join(sorted({i for i in ids if ids.count(i) > 1}))}")
    return sorted(found, key=lambda vector: vector.id)


def home(row: Format) -> tuple[str, str]:
    """Level and family of a format itself, and of its decode table."""
    if row.overflow == "p3109_satnone":
        return DRAFT, f"binary{row.bits}"
    return LEVELS.get(row.name, ("derived", row.kind))


def level_of(row: Format, rounding: str, overflow: str) -> tuple[str, str]:
    """Level and family of a conversion."""
    level, family = home(row)
    for names, roundings, overflows, said in CONVERSIONS:
        if row.name in names and rounding in roundings and overflow in overflows:
            return said, family
    vendor = level.startswith("vendor/") and rounding == "rne" and overflow in ("sat", "nonsat")
    return (level if vendor or level == DRAFT else "derived"), family


def overflows(row: Format) -> tuple[str, ...]:
    """The overflow policies that a named row can follow."""
    return ("sat", "nonsat", "prop", "table3") if row.has_inf or row.has_nan else ("sat", "nonsat", "prop")


def own_overflow(row: Format) -> str:
    """The row's own overflow policy, as a token."""
    return next(token for token, name in golden.TOKENS.items() if name == row.overflow)


# --- the kinds --------------------------------------------------------------------------------


def _decode() -> Iterator[Vector]:
    """Every code's value: tables, those of named rows with a twin in text; tf32 by hash."""
    for row in FORMATS.values():
        shapes = ("tab", "memh") if row.bits <= 12 else ("tab",) if row.bits <= 16 else ("dig",)
        for shape in shapes if row.bits < 32 else ():
            name = SHORT_NAME.get(row.name, row.name)
            yield Vector(*home(row), "decode", name, "f32", "exact", "none", shape, row)
    for row in p3109_formats():
        yield Vector(*home(row), "decode", row.name, "f32", "exact", "none", "tab", row)


def _runs(row: Format, rounding: str, overflow: str) -> Iterator[Vector]:
    """A run file over float32, and the two narrower sources that it answers too."""
    name = SHORT_NAME.get(row.name, row.name)
    for source in ("f32", "f16", "bf16"):
        if source != name:
            level = level_of(row, rounding, overflow)
            yield Vector(*level, "convert", source, name, rounding, overflow, "run", row)


def _matrix(row: Format) -> Iterator[tuple[str, str]]:
    """Every rounding and overflow policy of a row; a table takes the nearest alone."""
    yield from product(ROUNDS if row.kind != "table" else ROUNDS[:1], overflows(row))


def _narrow() -> list[Format]:
    """The named rows whose run files are kept for every policy."""
    return [row for row in FORMATS.values() if row.bits <= 11]


def _conversions() -> Iterator[Vector]:
    for row in _narrow():
        for rounding, overflow in _matrix(row):
            yield from _runs(row, rounding, overflow)
    for row in (FORMATS["fp16"], FORMATS["bf16"]):
        for rounding in ("rne", "rtz"):
            yield from _runs(row, rounding, "nonsat")


def _alternatives() -> Iterator[Vector]:
    """What implementations choose where the standard is silent."""
    for row in _narrow():
        for choice, option, rounding, overflow in _choices(row):
            level, choices = (f"alternatives/{choice}/{option}", home(row)[1]), f"{choice}={option}"
            yield Vector(*level, "convert", "f32", row.name, rounding, overflow, "run", row, choices)


def _choices(row: Format) -> Iterator[tuple[str, str, str, str]]:
    """(choice, option, rounding, overflow) of a named row."""
    # 1. NaN: where there is none, and whether it keeps its sign
    nans = ("preserve_sign",) if row.has_signed_nan else () if row.has_nan else ("max", "zero")
    for option, overflow in product(nans, overflows(row)):
        yield "nan", option, "rne", overflow
    # 2. negatives of unsigned rows, but for OpenGL's, whose standard says zero; e8m0 under every policy
    if not row.signed and row.source.document != "OpenGL specification":
        options = ("nan", "zero", "abs") if row.has_nan else ("abs",)
        policies = list(_matrix(row)) if row.name == "e8m0" else [("rne", policy) for policy in overflows(row)]
        for option, (rounding, overflow) in product(options, policies):
            yield "negative", option, rounding, overflow
    # 3. subnormals, which much hardware flushes
    if row.kind == "float" and row.bits <= 8:
        yield "subnormals", "flush_input", "rne", own_overflow(row)
        if row.has_subnormals:
            yield "subnormals", "flush_output", "rne", own_overflow(row)


def _digested() -> Iterator[Vector]:
    """Conversions to 16 and 19 bits whose run files would be too long, by hash."""
    for row in (FORMATS["fp16"], FORMATS["bf16"]):
        name = SHORT_NAME.get(row.name, row.name)
        for rounding, overflow in product(ROUNDS, ("nonsat", "sat")):
            if overflow == "sat" or rounding not in ("rne", "rtz"):
                level = level_of(row, rounding, overflow)
                yield Vector(*level, "convert", "f32", name, rounding, overflow, "dig", row)
    row = FORMATS["tf32"]
    for rounding in ("rne", "rtz"):
        yield Vector(*level_of(row, rounding, "nonsat"), "convert", "f32", "tf32", rounding, "nonsat", "dig", row)


def _draft() -> Iterator[Vector]:
    """The P3109 draft: nearest even for each width of 3 to 8 bits, every rounding for three formats."""
    for row in p3109_formats():
        for rounding in ROUNDS if row.name in OTHER_ROUNDS_DRAFT else ROUNDS[:1]:
            for overflow in ("sat", "prop", "satnone"):
                yield Vector(*home(row), "convert", "f32", row.name, rounding, overflow, "run", row)


def _stochastic() -> Iterator[Vector]:
    """Stochastic rounding: one run file for each operand R of up to 4 bits; 8 bits by hash, from float16."""
    level = ("derived", "stochastic")
    for name, rounding in product(("e4m3", "e5m2"), ("sra", "srb", "src")):
        row = get_format(name)
        for n_bits in (1, 2, 3, 4):
            for random in range(1 << n_bits):
                choices = f"n={n_bits}.r={random}"
                yield Vector(*level, "convert", "f32", name, rounding, "sat", "run", row, choices)
        yield Vector(*level, "convert", "f16", name, rounding, "sat", "dig", row, "n=8")


def _arithmetic() -> Iterator[Vector]:
    """All pairs of codes; triples and what is seldom needed by hash."""
    for name, policies in ARITHMETIC.items():
        ask = ("derived", "arithmetic"), name, get_format(name)
        for overflow in policies:
            for op in ("add", "subtract", "multiply"):
                yield _operation(*ask, op, "rne", overflow, "tab")
            for op in ("divide", "fma"):
                yield _operation(*ask, op, "rne", overflow, "dig")
        yield _operation(*ask, "compare", "exact", "none", "dig")


def _operation(
    level: tuple[str, str], name: str, row: Format, op: str, rounding: str, overflow: str, shape: str
) -> Vector:
    return Vector(*level, op, name, name, rounding, overflow, shape, row)


@lru_cache(maxsize=1)
def lists() -> Mapping[str, list[golden_cases.Case]]:
    """The cases of each list, by its id."""
    return golden_cases.vector_lists()


def _lists() -> Iterator[Vector]:
    """Edges and regressions: see golden_cases."""
    for vector_id, cases in lists().items():
        case, asked = cases[0], golden.question(vector_id)
        row = get_format(asked.source if case.op == "decode" else asked.target)
        level = _list_level(case, row)
        yield Vector(*level, case.op, case.src, case.dst, case.round, case.overflow, "tv", row, case.choices)


def _list_level(case: golden_cases.Case, row: Format) -> tuple[str, str]:
    """Level and family of a list: those of the same question over all inputs."""
    if case.op == "decode":
        return home(row)
    if case.op != "convert":
        return "derived", "arithmetic"
    level, family = level_of(row, case.round, case.overflow)
    if case.choices.startswith("n="):
        return "derived", "stochastic"
    if case.choices:
        return f"alternatives/{case.choices.split('.')[0].replace('=', '/')}", family
    return ("derived" if case.src in ("f64", "i64") and level != DRAFT else level), family
