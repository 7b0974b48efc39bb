"""Golden vectors in the languages of those who need them: SystemVerilog, C, memory images, CSV.

    kind    what it is                                      of which shapes
    sv      a package: expected value, digit and verdict    run, tab
    sva     the package, and a module that asserts it       run, tab
    c       a header: table, search, verdict; C99 and C++   run, tab, blk
    rust    a module with the same, without std             run, tab, blk
    memh    an image for $readmemh, up to 64 Ki words       run, tab
    csv     the lines, with a head                          all but msk and memh

Every form holds the judge digits, and a NaN passes by class.  A table of up to 64 Ki inputs is an
array in C and Rust; a longer list of runs is searched; whole blocks are an array of structures.  No form
needs anything of ours at run time.

Source: IEEE 1800-2017 (SystemVerilog), clauses 16, 21.4, 26, 35; ISO C99; design of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from feather_ref import golden
from feather_ref._export_parts import DENSE, PER_LINE, digits, fill, head, name_of
from feather_ref._export_rust import rust, rust_blocks
from feather_ref._steps import Steps, load_steps, nan_ranges
from feather_ref.golden import Folder


def export(vector_id: str, kind: str, folder: Folder = None) -> str:
    """A vector as text of a kind; see the top of this module.

    Raises TypeError or ValueError for an unknown id or kind, for a shape that has no such form, and for a
    file that is not the manifest's.

    >>> print(export("decode.e2m1.f32.exact.none.tab", "csv").splitlines()[-1])
    F,C0C00000,1
    """
    for name, given in (("vector_id", vector_id), ("kind", kind)):
        if not isinstance(given, str):
            raise TypeError(f"{name} must be a str, got {type(given).__name__}")
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    row = _find(vector_id, folder)
    kinds = _SHAPES.get(row["shape"], ())
    if kind not in kinds:
        also = f"it has {', '.join(kinds)}, and {row['path']} itself" if kinds else f"take {row['path']} itself"
        raise ValueError(f"vector_id: a .{row['shape']} file cannot be exported as {kind}; {also}")
    write = _BLOCKS[kind] if row["shape"] == "blk" else _KINDS[kind]
    return "".join(f"{line}\n" for line in write(vector_id, folder))


def _find(vector_id: str, folder: Folder) -> golden.Row:
    """The manifest row; an error that says so for a suite of blocks that has no file."""
    try:
        return golden.find(vector_id, folder)
    except ValueError:
        try:
            asked = golden.block_question(vector_id)
        except ValueError:
            asked = None
        if asked is None or asked.shape != "blk" or asked.op not in ("block", "dequantize"):
            raise
        raise ValueError(
            f"vector_id: {vector_id!r} has no file to export: its answers are made when they are asked for; "
            "`feather-ref gen` writes its inputs, and `feather-ref check` judges"
        ) from None


# --- CSV and memory images --------------------------------------------------------------------


def _csv(vector_id: str, folder: Folder) -> Iterator[str]:
    yield from head(vector_id, "#", folder)
    shape = golden.find(vector_id, folder)["shape"]
    if shape in _STEPS:
        yield from _csv_steps(load_steps(vector_id, folder), shape)
        return
    lines = golden.read(vector_id, folder).decode("ascii").splitlines()
    columns = "chunk,count,crc32,sha256"
    if shape == "tv":
        columns = ",".join([*"abc"[: len(lines[0].split()) - 2], "z", "j"])
    if shape == "blk":
        bfmt = golden.block_question(vector_id).bfmt
        whole, k = ["amax"] * (bfmt.tensor_scale != "none"), range(bfmt.size)
        columns = ",".join([*whole, *(f"x{i}" for i in k), "scale", *(f"z{i}" for i in k), "j"])
    yield from (columns, *(",".join(line.split()) for line in lines))


def _csv_steps(steps: Steps, shape: str) -> Iterator[str]:
    wide, narrow = digits(steps.in_bits), digits(steps.out_bits)
    if shape == "run":
        yield "lo,hi,z,j"
        for lo, hi, z, j in zip(*(column.tolist() for column in steps[3:]), strict=True):
            yield f"{lo:0{wide}X},{hi:0{wide}X},{z:0{narrow}X},{j}"
        return
    yield "in,z,j"
    for pattern, (z, j) in enumerate(zip(*(column.tolist() for column in steps.dense()), strict=True)):
        yield f"{pattern:0{wide}X},{z:0{narrow}X},{j}"


def _memh(vector_id: str, folder: Folder) -> Iterator[str]:
    steps = load_steps(vector_id, folder)
    if 1 << steps.in_bits > DENSE:
        raise ValueError(
            f"vector_id: {vector_id!r} has 2**{steps.in_bits} inputs, and memh at most {DENSE}; "
            "take sv, or the id of a 16-bit source"
        )
    z, j = steps.dense()
    if (j == 3).any():
        at = int((j == 3).argmax())
        raise ValueError(f"vector_id: input {at:#x} of {vector_id!r} allows two results, and memh holds one; take sv")
    yield from head(vector_id, "//", folder)
    yield "// One word for each input, in order; x where anything passes."
    width = digits(steps.out_bits)
    nans = ", ".join(f"{lo:0{width}X}..{hi:0{width}X}" for lo, hi in steps.nans)
    yield f"// NaN: {nans or 'none'}; where a word is one of these, any of them passes."
    for word, digit in zip(z.tolist(), j.tolist(), strict=True):
        yield f"{word:0{width}X}" if digit else "x" * width


# --- SystemVerilog ----------------------------------------------------------------------------


def _sv(vector_id: str, folder: Folder) -> Iterator[str]:
    """The package.  Words of {digit, value} stand in a balanced tree, which every tool reads."""
    steps = load_steps(vector_id, folder)
    i, o = steps.in_bits, steps.out_bits
    yield from head(vector_id, "//", folder)
    yield from fill(
        _SV_PACKAGE,
        NAME=name_of(vector_id),
        IN=i,
        INTOP=i - 1,
        OUT=o,
        OUTTOP=o - 1,
        ROWTOP=o + 1,
        TREE="\n".join(_tree(steps, 0, len(steps.lo), 2)),
        NAN=_is_nan(steps, lambda code: f"{o}'h{code:0{digits(o)}X}") or "1'b0",
    )


def _sva(vector_id: str, folder: Folder) -> Iterator[str]:
    steps = load_steps(vector_id, folder)
    yield from _sv(vector_id, folder)
    tops = {"INTOP": steps.in_bits - 1, "OUTTOP": steps.out_bits - 1}
    yield from fill(_SV_MODULE, NAME=name_of(vector_id), IN=steps.in_bits, **tops)


def _tree(steps: Steps, first: int, end: int, depth: int) -> Iterator[str]:
    """Choose among the steps first .. end - 1, by halves."""
    pad = "  " * depth
    if end - first == 1:
        z, j = int(steps.z[first]), int(steps.j[first])
        yield f"{pad}row = {{2'd{j}, {steps.out_bits}'h{z:0{digits(steps.out_bits)}X}}};"
        return
    middle = (first + end) // 2
    last = int(steps.hi[middle - 1])
    yield f"{pad}if (in <= {steps.in_bits}'h{last:0{digits(steps.in_bits)}X}) begin"
    yield from _tree(steps, first, middle, depth + 1)
    yield f"{pad}end else begin"
    yield from _tree(steps, middle, end, depth + 1)
    yield f"{pad}end"


_SV_PACKAGE = """\
package @NAME@_pkg;

  // {judge digit, z}
  function automatic [@ROWTOP@:0] row(input [@INTOP@:0] in);
@TREE@
  endfunction

  function automatic [@OUTTOP@:0] expected(input [@INTOP@:0] in);
    reg [@ROWTOP@:0] both;
    both = row(in);
    expected = both[@OUTTOP@:0];
  endfunction

  function automatic [1:0] digit(input [@INTOP@:0] in);
    reg [@ROWTOP@:0] both;
    both = row(in);
    digit = both[@ROWTOP@:@OUT@];
  endfunction

  function automatic is_nan(input [@OUTTOP@:0] code);
    is_nan = @NAN@;
  endfunction

  // 1 or 0, never x: an unknown bit in `out` fails wherever bits matter.
  function automatic passes(input [@INTOP@:0] in, input [@OUTTOP@:0] out);
    reg [@OUTTOP@:0] z;
    z = expected(in);
    case (digit(in))
      2'd0: passes = 1'b1;
      2'd1: passes = out === z;
      2'd2: passes = is_nan(out) === 1'b1;
      default: passes = out === z || out === z + @OUT@'d1;
    endcase
  endfunction

endpackage
"""

_SV_MODULE = """\

// Bind it to a design, or put it beside one and connect both.
//   CLOCKED = 0   `out` follows `in` at once; `clk` may stay open
//   CLOCKED = 1   both are read at the rising edge of `clk`; `out` belongs to the `in` LATENCY edges before
// An input with unknown bits is not judged.  Icarus Verilog has no `assert final`: for it take CLOCKED = 1, and
// -gsupported-assertions on its command line.
module @NAME@_check #(
    parameter CLOCKED = 0,
    parameter LATENCY = 0
) (
    input [@INTOP@:0] in,
    input [@OUTTOP@:0] out,
    input clk
);

  generate
    if (CLOCKED == 0) begin : at_once
      always @* begin
        if ((^in) !== 1'bx) begin : results_match
          assert final (@NAME@_pkg::passes(in, out));
        end
      end
    end else begin : at_edges
      reg  [@IN@*(LATENCY+1)-1:0] sent;   // inputs of the edges before, the newest in the low bits
      reg  [LATENCY:0] valid = 0;       // which of them there were
      wire [@IN@*(LATENCY+2)-1:0] inputs = {sent, in};
      wire [LATENCY+1:0] ready = {valid, 1'b1};
      wire [@INTOP@:0] then = inputs[@IN@*LATENCY +: @IN@];
      always @(posedge clk) begin
        sent <= inputs[@IN@*(LATENCY+1)-1:0];
        valid <= ready[LATENCY:0];
        if (ready[LATENCY] && (^then) !== 1'bx) begin : results_match
          assert (@NAME@_pkg::passes(then, out));
        end
      end
    end
  endgenerate

endmodule
"""


# --- C ----------------------------------------------------------------------------------------


def _c(vector_id: str, folder: Folder) -> Iterator[str]:
    steps = load_steps(vector_id, folder)
    dense = 1 << steps.in_bits <= DENSE
    z, j = steps.dense() if dense else (steps.z, steps.j)
    name, types = name_of(vector_id), {"IN": _c_type(steps.in_bits), "OUT": _c_type(steps.out_bits)}
    tables = [] if dense else _c_table(f"{name}_hi", types["IN"], steps.hi.tolist(), steps.in_bits)
    tables = [*tables, *_c_table(f"{name}_z", types["OUT"], z.tolist(), steps.out_bits)]
    tables = [*tables, *_c_table(f"{name}_j", "uint8_t", j.tolist(), 1)]
    yield "/*"
    yield from head(vector_id, " *", folder)
    yield " */"
    yield from fill(
        _C_HEADER,
        NAME=name,
        GUARD=f"FEATHER_{name.upper()}_H",
        BITS=steps.in_bits,
        CELLS=len(z),
        TABLES="\n".join(tables),
        INMASK=f"0x{(1 << steps.in_bits) - 1:X}u",
        LINE=_C_INDEX if dense else _C_SEARCH,
        NAN=_is_nan(steps, lambda code: f"0x{code:0{digits(steps.out_bits)}X}u") or "(void)code, 0",
        MASK=f"0x{(1 << steps.out_bits) - 1:X}u",
        **types,
    )


def _c_type(bits: int) -> str:
    return f"uint{8 if bits <= 8 else 16 if bits <= 16 else 32}_t"


def _c_table(name: str, kind: str, values: Sequence[int], bits: int) -> Iterator[str]:
    yield f"static const {kind} {name}[{len(values)}] = {{"
    for i in range(0, len(values), PER_LINE):
        cells = ", ".join(f"0x{value:0{digits(bits)}X}u" for value in values[i : i + PER_LINE])
        yield f"    {cells},"
    yield "};"


_C_INDEX = """\
    return in & @INMASK@;
"""

_C_SEARCH = """\
    size_t first = 0, last = @CELLS@ - 1;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (in <= @NAME@_hi[middle]) last = middle; else first = middle + 1;
    }
    return first;
"""

_C_HEADER = """\
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>
#include <stdint.h>

@TABLES@

/* The line of an input; bits above the @BITS@ of an input are ignored. */
static inline size_t @NAME@_line(@IN@ in) {
@LINE@}

/* The result that is expected. */
static inline @OUT@ @NAME@_expected(@IN@ in) {
    return @NAME@_z[@NAME@_line(in)];
}

/* Whether a result is NaN. */
static inline int @NAME@_is_nan(@OUT@ code) {
    return @NAN@;
}

/* The verdict: 1 if `out` is right for `in`, else 0. */
static inline int @NAME@_check(@IN@ in, @OUT@ out) {
    size_t line = @NAME@_line(in);
    @OUT@ z = @NAME@_z[line];
    switch (@NAME@_j[line]) {
        case 0: return 1;
        case 1: return out == z;
        case 2: return @NAME@_is_nan(out);
        default: return out == z || out == ((z + 1u) & @MASK@);
    }
}

/* For import "DPI-C": define FEATHER_DPI in the one C file that shall hold the function. */
#ifdef FEATHER_DPI
#ifdef __cplusplus
extern "C"
#endif
int @NAME@_dpi(unsigned in, unsigned out) {
    return @NAME@_check((@IN@)in, (@OUT@)out) && (@OUT@)out == out;
}
#endif

#endif
"""


# --- whole blocks in C ------------------------------------------------------------------------


def _c_blocks(vector_id: str, folder: Folder) -> Iterator[str]:
    """A .blk file as an array of structures, and the verdict on one of them."""
    bfmt, found = golden.block_question(vector_id).bfmt, golden.load_blocks(vector_id, folder)
    tensors = [None] * len(found.x) if found.tensor is None else found.tensor.tolist()
    rows = zip(tensors, found.x.tolist(), found.scale.tolist(), found.z.tolist(), found.j.tolist(), strict=True)
    nans = " || ".join(f"scale == 0x{lo:02X}u" for lo, hi in nan_ranges(bfmt.scale) for lo in range(lo, hi + 1))
    least = bfmt.spare_code
    yield "/*"
    yield from head(vector_id, " *", folder)
    yield " */"
    yield from fill(
        _C_BLOCKS,
        NAME=name_of(vector_id),
        GUARD=f"FEATHER_{name_of(vector_id).upper()}_H",
        K=bfmt.size,
        COUNT=len(found.x),
        TENSOR="" if found.tensor is None else "    uint32_t amax; /* of the tensor, float32 bits */\n",
        ROWS="\n".join(_c_block(*row, digits(bfmt.element.bits)) for row in rows),
        NAN=nans,
        LEAST="" if least is None else f" && !(block->z[k] == 0x{least:X}u && codes[k] == 0x{least + 1:X}u)",
    )


def _c_block(tensor: int | None, x: list[int], scale: int, z: list[int], j: int, digits: int) -> str:
    numbers = ", ".join(f"0x{each:08X}u" for each in x)
    codes = ", ".join(f"0x{each:0{digits}X}" for each in z)
    whole = "" if tensor is None else f"0x{tensor:08X}u, "
    return f"    {{{whole}{{{numbers}}}, 0x{scale:02X}, {{{codes}}}, {j}}},"


_C_BLOCKS = """\
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>
#include <stdint.h>

typedef struct {
@TENSOR@    uint32_t x[@K@]; /* the numbers, float32 bits */
    uint8_t scale; /* the scale's code */
    uint8_t z[@K@]; /* the elements' codes */
    uint8_t j; /* 1: these bits; 2: any NaN for the scale, and the elements are free */
} @NAME@_block;

enum { @NAME@_count = @COUNT@ };

static const @NAME@_block @NAME@_blocks[@COUNT@] = {
@ROWS@
};

/* The verdict: -1 if scale and codes are right for block i, 0 if the scale is wrong, else 1 + the first wrong code. */
static inline int @NAME@_check(size_t i, uint8_t scale, const uint8_t *codes) {
    const @NAME@_block *block = &@NAME@_blocks[i];
    if (block->j == 2) return @NAN@ ? -1 : 0;
    if (scale != block->scale) return 0;
    for (int k = 0; k < @K@; k++) {
        if (codes[k] != block->z[k]@LEAST@) return 1 + k;
    }
    return -1;
}

#endif
"""


# --- templates --------------------------------------------------------------------------------


def _is_nan(steps: Steps, literal: Callable[[int], str]) -> str:
    """Whether `code` is NaN, as an expression of C and of SystemVerilog; empty without NaN."""
    parts = []
    for lo, hi in steps.nans:
        if lo == hi:
            parts.append(f"code == {literal(lo)}")
        elif hi + 1 == 1 << steps.out_bits:  # a comparison that is always true is a warning
            parts.append(f"code >= {literal(lo)}")
        else:
            parts.append(f"(code >= {literal(lo)} && code <= {literal(hi)})")
    return " || ".join(parts)


_STEPS = ("run", "tab")
_KINDS: Mapping[str, Callable[[str, Folder], Iterator[str]]] = MappingProxyType(
    {"sva": _sva, "sv": _sv, "c": _c, "rust": rust, "memh": _memh, "csv": _csv}
)
_BLOCKS: Mapping[str, Callable[[str, Folder], Iterator[str]]] = MappingProxyType(
    {"c": _c_blocks, "rust": rust_blocks, "csv": _csv}
)
KINDS = tuple(_KINDS)
"""What a vector can be exported as."""

_SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"run": KINDS, "tab": KINDS, "tv": ("csv",), "dig": ("csv",), "blk": tuple(_BLOCKS)}
)
