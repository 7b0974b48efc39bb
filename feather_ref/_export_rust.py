"""Golden vectors as a module of Rust: table, search, verdict, as the header in C has them.

It needs neither std nor a crate; `mod vector;` takes it in.

Source: The Rust Reference, editions 2018 and later; design of this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from feather_ref import golden
from feather_ref._export_parts import DENSE, PER_LINE, digits, fill, head
from feather_ref._steps import Ranges, load_steps, nan_ranges
from feather_ref.golden import Folder

_ABOUT = {
    "HI": "/// The last input of each line; the first follows the last of the line before.",
    "Z": "/// The result of each line.",
    "J": "/// Its judge digit.",
}


def rust(vector_id: str, folder: Folder) -> Iterator[str]:
    """The module of a list of runs, or of a table."""
    steps = load_steps(vector_id, folder)
    dense = 1 << steps.in_bits <= DENSE
    z, j = steps.dense() if dense else (steps.z, steps.j)
    inputs, outputs = _type(steps.in_bits), _type(steps.out_bits)
    tables = [] if dense else [*_table("HI", inputs, steps.hi.tolist(), steps.in_bits)]
    tables += [*_table("Z", outputs, z.tolist(), steps.out_bits), *_table("J", "u8", j.tolist(), 1)]
    yield from head(vector_id, "//", folder)
    yield from fill(
        _MODULE,
        BITS=steps.in_bits,
        TABLES="\n".join(tables),
        LINE=f"usize::from(input & {_hex((1 << steps.in_bits) - 1)})" if dense else _SEARCH,
        NAN=_is_nan(steps.nans),
        MASK=_hex((1 << steps.out_bits) - 1),
        IN=inputs,
        OUT=outputs,
    )


def rust_blocks(vector_id: str, folder: Folder) -> Iterator[str]:
    """The module of a list of blocks."""
    bfmt, found = golden.block_question(vector_id).bfmt, golden.load_blocks(vector_id, folder)
    tensors = [None] * len(found.x) if found.tensor is None else found.tensor.tolist()
    rows = zip(tensors, found.x.tolist(), found.scale.tolist(), found.z.tolist(), found.j.tolist(), strict=True)
    least = bfmt.spare_code
    yield from head(vector_id, "//", folder)
    yield from fill(
        _BLOCKS,
        K=bfmt.size,
        COUNT=len(found.x),
        TENSOR="" if found.tensor is None else "    /// Of the tensor, float32 bits.\n    pub amax: u32,\n",
        ROWS="\n".join(_block(*row, digits(bfmt.element.bits)) for row in rows),
        NAN=_is_nan(nan_ranges(bfmt.scale)),
        LEAST="" if least is None else f" || (z == {_hex(least)} && code == {_hex(least + 1)})",
    )


def _type(bits: int) -> str:
    return f"u{8 if bits <= 8 else 16 if bits <= 16 else 32}"


def _hex(value: int, width: int = 1) -> str:
    return f"0x{value:0{width}X}"


def _table(name: str, kind: str, values: Sequence[int], bits: int) -> Iterator[str]:
    yield f"{_ABOUT[name]}\npub static {name}: [{kind}; {len(values)}] = ["
    for i in range(0, len(values), PER_LINE):
        yield f"    {', '.join(_hex(value, digits(bits)) for value in values[i : i + PER_LINE])},"
    yield "];"


def _is_nan(nans: Ranges) -> str:
    """Whether `code` is NaN."""
    if not nans:
        return "let _ = code; // there is none\n    false"
    return f"matches!(code, {' | '.join(_hex(lo) if lo == hi else f'{_hex(lo)}..={_hex(hi)}' for lo, hi in nans)})"


def _block(tensor: int | None, x: list[int], scale: int, z: list[int], j: int, width: int) -> str:
    numbers, codes = (", ".join(_hex(each, wide) for each in part) for part, wide in ((x, 8), (z, width)))
    whole = "" if tensor is None else f"amax: {_hex(tensor, 8)}, "
    return f"    Block {{ {whole}x: [{numbers}], scale: {_hex(scale, 2)}, z: [{codes}], j: {j} }},"


_SEARCH = "HI.partition_point(|&hi| hi < input)"

_MODULE = """\
#![allow(dead_code)]

@TABLES@

/// The line of an input; bits above the @BITS@ of an input are ignored.
pub fn line(input: @IN@) -> usize {
    @LINE@
}

/// The result that is expected.
pub fn expected(input: @IN@) -> @OUT@ {
    Z[line(input)]
}

/// Whether a result is NaN.
pub fn is_nan(code: @OUT@) -> bool {
    @NAN@
}

/// The verdict: whether `out` is right for `input`.
pub fn check(input: @IN@, out: @OUT@) -> bool {
    let line = line(input);
    let z = Z[line];
    match J[line] {
        0 => true,
        1 => out == z,
        2 => is_nan(out),
        _ => out == z || out == z.wrapping_add(1) & @MASK@,
    }
}
"""

_BLOCKS = """\
#![allow(dead_code)]

/// One block, and what it should give.
pub struct Block {
@TENSOR@    /// The numbers, float32 bits.
    pub x: [u32; @K@],
    /// The scale's code.
    pub scale: u8,
    /// The elements' codes.
    pub z: [u8; @K@],
    /// 1: these bits; 2: any NaN for the scale, and the elements are free.
    pub j: u8,
}

pub static BLOCKS: [Block; @COUNT@] = [
@ROWS@
];

/// Whether a scale is NaN.
pub fn is_nan(code: u8) -> bool {
    @NAN@
}

/// The verdict: None if all is right for block i, Some(0) if the scale is wrong, else Some(1 + the first wrong code).
pub fn check(i: usize, scale: u8, codes: &[u8; @K@]) -> Option<usize> {
    let block = &BLOCKS[i];
    if block.j == 2 {
        return if is_nan(scale) { None } else { Some(0) };
    }
    if scale != block.scale {
        return Some(0);
    }
    let right = |(&code, &z): (&u8, &u8)| code == z@LEAST@;
    codes.iter().zip(&block.z).position(|pair| !right(pair)).map(|k| 1 + k)
}
"""
