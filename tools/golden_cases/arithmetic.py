"""Edges of arithmetic on codes, worked out by hand.

Where two roundings and one differ, the sum lies one least subnormal beside half way, and the
product alone on it: 1.25 * 1.25 = 1.5625 is half way between 1.5 and 1.625 in e4m3.

Source: IEEE 754-2019, 5.4.1, 6.1 to 6.3; the products and sums are exact decimal fractions.
"""

from __future__ import annotations

from collections.abc import Iterator

from golden_cases.case import Case

Row = tuple[str, str, tuple[tuple[int, ...], ...], str, str]

# class, id, operands, want, note
ROWS: tuple[Row, ...] = (
    ("fused", "fma.e4m3.e4m3.rne.sat", ((0x3A, 0x3A, 0x01), (0x3A, 0x3A, 0x81), (0x39, 0x3C, 0x81), (0x39, 0x3C, 0x01)),
     "3D 3C 3D 3E", "1.25 * 1.25 and 1.125 * 1.5 are half way; 2**-9 more or less decides"),
    ("cancellation", "fma.e4m3.e4m3.rne.sat", ((0x39, 0x39, 0xBA), (0x3A, 0x3A, 0xBC)), "08 18",
     "1.125 * 1.125 - 1.25 = 2**-6; 1.25 * 1.25 - 1.5 = 2**-4"),
    ("zero_sum", "fma.e4m3.e4m3.rne.sat", ((0x38, 0x38, 0xB8), (0xB8, 0x00, 0x80), (0xB8, 0x00, 0x00)), "00 80 00",
     "1 * 1 - 1 is +0; -0 and -0 is -0; -0 and +0 is +0"),
    ("zero_sum", "fma.e4m3.e4m3.rdn.sat", ((0x38, 0x38, 0xB8), (0xB8, 0x00, 0x00)), "80 80",
     "rounded down, an exact zero of unlike signs is -0"),
    ("fused", "fma.e5m2.e5m2.rne.nonsat",
     ((0x3D, 0x3E, 0x81), (0x3D, 0x3E, 0x01), (0x3E, 0x3E, 0x01), (0x3E, 0x3E, 0x81)),
     "3F 40 41 40", "1.25 * 1.5 and 1.5 * 1.5 are half way; 2**-16 more or less decides"),
    ("inf", "fma.e5m2.e5m2.rne.nonsat",
     ((0x7C, 0x00, 0x3C), (0x7C, 0x3C, 0xFC), (0x7C, 0x3C, 0x7C), (0x7B, 0x40, 0xFC)),
     "7F 7F 7C FC", "0 * Inf and Inf - Inf are NaN; a product that is too large in between is no Inf"),
    ("overflow", "fma.e5m2.e5m2.rne.nonsat", ((0x7B, 0x40, 0xFB), (0x7B, 0x40, 0x00)), "7B 7C",
     "2 * 57344 - 57344 comes back"),
    ("zero_sum", "add.e4m3.e4m3.rne.sat", ((0x38, 0xB8), (0x80, 0x80), (0x80, 0x00)), "00 80 00",
     "the sign of an exact zero"),
    ("zero_sum", "add.e4m3.e4m3.rdn.sat", ((0x38, 0xB8), (0x80, 0x80), (0x80, 0x00), (0x00, 0x00)), "80 80 80 00",
     "rounded down, an exact zero of unlike signs is -0"),
    ("zero_sum", "add.e4m3fnuz.e4m3fnuz.rdn.sat", ((0x40, 0xC0), (0x80, 0x40)), "00 80",
     "no -0: its code is NaN"),
    ("tie_at_max", "add.e4m3.e4m3.rne.nonsat", ((0x7E, 0x58), (0x7E, 0x59), (0xFE, 0xD8)), "7E 7F FE",
     "448 + 16 = 464 stays, 448 + 18 does not"),
    ("tie_at_max", "add.e5m2.e5m2.rne.nonsat", ((0x7B, 0x6B), (0x7B, 0x6C), (0xFB, 0xEC)), "7B 7C FC",
     "57344 + 4096 = 61440 is Inf, 57344 + 3584 is not"),
    ("inf", "add.e5m2.e5m2.rne.nonsat", ((0x7C, 0xFC), (0x7C, 0xFB), (0xFC, 0xFC)), "7F 7C FC", "Inf - Inf is NaN"),
    ("cancellation", "subtract.e4m3.e4m3.rne.sat", ((0x39, 0x38), (0x38, 0x38), (0x80, 0x00), (0x08, 0x07)),
     "20 00 80 01", "1.125 - 1; 1 - 1; -0 - 0; the least normal less the greatest subnormal"),
    ("half_min_subnormal", "multiply.e4m3.e4m3.rne.sat", ((0x01, 0x30), (0x01, 0x31), (0x81, 0x30), (0x03, 0x30)),
     "00 01 80 02", "2**-9 times 0.5 is half way to zero; 3 * 2**-9 times 0.5 is half way between 1 and 2"),
    ("product_over_f32_max", "multiply.f32.f32.rne.nonsat",
     ((0x7F7FFFFF, 0x40000000), (0x7F7FFFFF, 0xBF800000), (0x7F7FFFFF, 0x3F800001)), "7F800000 FF7FFFFF 7F800000",
     "the greatest float32 times 2, -1 and the next above 1"),
    ("product_over_f32_max", "multiply.bf16.bf16.rne.nonsat", ((0x7F00, 0x4000), (0x7F00, 0xC000), (0x7F00, 0x3FFF)),
     "7F80 FF80 7F7F", "2**127 times 2, -2 and the next below 2"),
    ("arithmetic", "divide.e4m3.e4m3.rne.sat", ((0x38, 0x44), (0x38, 0x00), (0x80, 0x38), (0x00, 0x00)), "2B 7E 80 7F",
     "1 / 3; 1 / 0 is Inf, which saturates; -0 / 1; 0 / 0 is NaN"),
    ("inf", "divide.e5m2.e5m2.rne.nonsat", ((0x38, 0x80), (0x7C, 0x7C), (0x3C, 0xFC), (0x00, 0x00)), "FC 7F 80 7F",
     "the sign of x / -0; Inf / Inf; 1 / -Inf; 0 / 0"),
    ("arithmetic", "divide.bf16.bf16.rne.nonsat", ((0x3F80, 0x4040),), "3EAB", "1 / 3"),
    ("order", "compare.e4m3.e4m3.exact.none", ((0xB8, 0x38), (0x38, 0xB8), (0x38, 0x7F), (0x01, 0x81)), "0 2 3 2",
     "negatives below positives; NaN is unordered"),
    ("order", "compare.e5m2.e5m2.exact.none", ((0xFC, 0xFB), (0x7C, 0x7B), (0x7E, 0x7C), (0x00, 0x80)), "0 2 3 1",
     "Inf lies outside every number"),
)  # fmt: skip


def arithmetic() -> Iterator[Case]:
    """The rows as cases."""
    for cls, name, operands, want, note in ROWS:
        op, source, target, rounding, overflow = name.split(".")
        codes = tuple(int(code, 16) for code in want.split())
        yield Case(cls, op, source, target, rounding, overflow, "", operands, note, codes)
