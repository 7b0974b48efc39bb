"""The conversions as something to compile: its name, its arguments, and what it depends on.

Source: design of this project.
"""

from __future__ import annotations

from feather_kernels.convert import make_pack, make_unpack, small_bits
from feather_kernels.launch import Job, element
from feather_ref import Format, get_format
from feather_ref.policy import Policy


def pack_job(policy: Policy, source: str, width: int, shift: int, vector: bool, words: bool, n_bits: int = 0) -> Job:
    """Numbers to lanes."""
    arguments = (policy, source, width, shift, vector, words, n_bits)
    pointers = ("u32*", element(get_format(source).bits), "u32*", element(small_bits(width)), "u32*", "u32*")
    kinds = (*pointers, *["i64"] * 4)
    return Job(f"pack_{policy.fmt.name}_{source}_{width}", lambda: make_pack(*arguments), kinds, repr(arguments))


def unpack_job(fmt: Format, target: str, width: int, shift: int, vector: bool, words: bool, scaled: bool) -> Job:
    """Lanes to numbers."""
    arguments = (fmt, target, width, shift, vector, words, scaled)
    kinds = ("u32*", element(small_bits(width)), "u32*", element(get_format(target).bits), "f32*", *["i64"] * 5)
    return Job(f"unpack_{fmt.name}_{target}_{width}", lambda: make_unpack(*arguments), kinds, repr(arguments))
