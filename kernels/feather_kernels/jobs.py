"""Every kernel as something to compile: its name, its arguments, and what it depends on.

Source: design of this project.
"""

from __future__ import annotations

from feather_kernels.convert import make_pack, make_unpack
from feather_kernels.launch import Job
from feather_kernels.matvec import Gemv
from feather_ref import Format, get_format
from feather_ref.policy import Policy

_ELEMENT = {8: "u8*", 16: "u16*", 32: "u32*"}


def element(bits: int) -> str:
    """The kind of a pointer to elements of so many bits; words for any other width."""
    return _ELEMENT.get(bits, "u32*")


def gemv_job(g: Gemv) -> Job:
    """The multiplication with these choices."""
    name = f"gemv_{g.fmt.name}_{g.x}_{g.out}_r{g.rows}s{g.splits}w{g.warps}d{g.depth}{'f' * g.finite}"
    small = element(get_format(g.x).bits)
    out = element(get_format(g.out).bits)
    kinds = ("u32*", "u32*", small, "f32*", "f32*", out, *["i64"] * 4)
    return Job(name, g.make, kinds, repr(g))


def pack_job(policy: Policy, source: str, width: int, shift: int, vector: bool, words: bool) -> Job:
    """Numbers to lanes."""
    arguments = (policy, source, width, shift, vector, words)
    kinds = ("u32*", element(get_format(source).bits), "u32*", element(width), "u32*", *["i64"] * 4)
    return Job(f"pack_{policy.fmt.name}_{source}_{width}", lambda: make_pack(*arguments), kinds, repr(arguments))


def unpack_job(fmt: Format, target: str, width: int, shift: int, vector: bool, words: bool, scaled: bool) -> Job:
    """Lanes to numbers."""
    arguments = (fmt, target, width, shift, vector, words, scaled)
    kinds = ("u32*", element(width), "u32*", element(get_format(target).bits), "f32*", *["i64"] * 5)
    return Job(f"unpack_{fmt.name}_{target}_{width}", lambda: make_unpack(*arguments), kinds, repr(arguments))
