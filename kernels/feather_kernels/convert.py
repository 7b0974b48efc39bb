"""Kernels that encode and decode: numbers to words and words to numbers, some whole words a step.

A step is the least number of lanes that fills whole words, on both sides where vectors of 128 bits
can move the wide side: 4 lanes of 8 bits are 1 word, and 4 float32.  A thread takes one step of
one row, then the same step of the row that is the grid's height away::

    pack      numbers of x from step * lanes on -> words of y
    unpack    words of x from step * lanes * width / 32 on -> numbers of y

Numbers are words too: fp32, or fp16 and bf16 in pairs.  Codes in an array of their own are lanes of
8, 16 or 32 bits.  The last step of a row goes element by element, so that nothing outside the
arrays is read or written; `words` says that whole words are written there too, filled with zeros.

Source: `feather_ref.packing` for the order of lanes, "little".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.decoders import SIGN, make_top, make_value
from feather_kernels.encoders import REFUSED, make_encoder
from feather_ref import Format, get_format
from feather_ref.policy import Policy, resolve

Function = Callable[..., Any]

NUMBERS = ("fp32", "fp16", "bf16")
THREADS = 256


def step_lanes(width: int, number_bits: int, vector: bool) -> int:
    """How many lanes a thread takes at once.

    >>> step_lanes(8, 32, True), step_lanes(6, 32, True), step_lanes(4, 16, True), step_lanes(4, 32, False)
    (4, 16, 8, 8)
    """
    whole = math.lcm(width, 32) // width
    return math.lcm(whole, 128 // number_bits) if vector else whole


@cache
def make_pack(policy: Policy, source: str, width: int, shift: int, vector: bool, words: bool) -> Function:
    """pack(x, x_small, y, y_small, status, rows, n, x_stride, y_stride): numbers to lanes.

    x, y: words; x_small, y_small: the same memory by element.  Strides count elements of x, and
    words of y where `words`, else elements.  vector: every row of x is aligned to 16 bytes, and y to 4.
    status: one word, 1 where an input is refused.
    """
    row = get_format(source)
    lanes = step_lanes(width, row.bits, vector)
    x_words, y_words = lanes * row.bits // 32, lanes * width // 32
    bits_of, top, code_of = _number_bits(row), make_top(row.bits, 0), make_encoder(policy)
    put, put_number, lane_at = _make_put(width, shift), _make_put(row.bits, 0), make_top(width, 0)
    row_bits, down = row.bits, 32 - width

    @kernel
    def pack(x, x_small, y, y_small, status, rows, n, x_stride, y_stride):
        inputs = cuda.local.array(x_words, np.uint32)
        outputs = cuda.local.array(y_words, np.uint32)
        step = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        count = min(n - step * lanes, lanes)
        r = cuda.blockIdx.y
        while r < rows and count > 0:
            first = r * x_stride + step * lanes
            # 1. The numbers, zero where there are none.
            if vector and count == lanes:
                for i in range(0, x_words, 4):
                    at = first * row_bits // 32 + i
                    inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3] = ptx.stream4(x, at)
            else:
                for i in range(x_words):
                    inputs[i] = np.uint32(0)
                for j in range(lanes):
                    if j < count:
                        put_number(inputs, j, np.uint32(x_small[first + j]))
            # 2. Their codes.
            for i in range(y_words):
                outputs[i] = np.uint32(0)
            for j in range(lanes):
                if j < count:
                    code = code_of(bits_of(top(inputs, 0, j)))
                    if code == np.uint32(REFUSED):
                        status[0] = np.uint32(1)
                    put(outputs, j, code)
            # 3. Whole words, or the elements that are there.
            if words:
                for i in range(y_words):
                    if i * 32 < count * width:
                        y[r * y_stride + step * y_words + i] = outputs[i]
            elif vector and count == lanes:
                for i in range(y_words):
                    y[(r * y_stride + step * lanes) * width // 32 + i] = outputs[i]
            else:
                for j in range(lanes):
                    if j < count:
                        y_small[r * y_stride + step * lanes + j] = np.uint32(lane_at(outputs, 0, j) >> np.uint32(down))
            r += cuda.gridDim.y

    return pack


@cache
def make_unpack(fmt: Format, target: str, width: int, shift: int, vector: bool, words: bool, scaled: bool) -> Function:
    """unpack(x, x_small, y, y_small, scale, rows, n, x_stride, y_stride, scale_stride): lanes to numbers.

    As `make_pack`, the other way round; vector: every row of y is aligned to 16 bytes, and x to 4.
    scaled: numbers are multiplied by scale[row * scale_stride], rounded once.
    """
    row = get_format(target)
    lanes = step_lanes(width, row.bits, vector)
    x_words, y_words = lanes * width // 32, lanes * row.bits // 32
    top, value, bits_of = make_top(width, width - shift - fmt.bits), make_value(fmt), _make_result_bits(row)
    put_code, put, number_at = _make_put(width, 0), _make_put(row.bits, 0), make_top(row.bits, 0)
    row_bits, down = row.bits, 32 - row.bits

    @kernel
    def unpack(x, x_small, y, y_small, scale, rows, n, x_stride, y_stride, scale_stride):
        inputs = cuda.local.array(x_words, np.uint32)
        outputs = cuda.local.array(y_words, np.uint32)
        step = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        count = min(n - step * lanes, lanes)
        r = cuda.blockIdx.y
        while r < rows and count > 0:
            factor = scale[r * scale_stride] if scaled else np.float32(1)
            # 1. The codes, zero where there are none.
            for i in range(x_words):
                inputs[i] = np.uint32(0)
                if words and i * 32 < count * width:
                    inputs[i] = ptx.stream(x, r * x_stride + step * x_words + i)
                elif not words and vector and count == lanes:
                    inputs[i] = ptx.stream(x, (r * x_stride + step * lanes) * width // 32 + i)
            if not words and not (vector and count == lanes):
                for j in range(lanes):
                    if j < count:
                        put_code(inputs, j, np.uint32(x_small[r * x_stride + step * lanes + j]))
            # 2. Their numbers.
            for i in range(y_words):
                outputs[i] = np.uint32(0)
            for j in range(lanes):
                number = value(top(inputs, 0, j))
                put(outputs, j, bits_of(ptx.mul(number, factor) if scaled else number))
            # 3. Vectors, or the elements that are there.
            first = r * y_stride + step * lanes
            if vector and count == lanes:
                for i in range(0, y_words, 4):
                    at = first * row_bits // 32 + i
                    ptx.store4(y, at, outputs[i], outputs[i + 1], outputs[i + 2], outputs[i + 3])
            else:
                for j in range(lanes):
                    if j < count:
                        y_small[first + j] = np.uint32(number_at(outputs, 0, j) >> np.uint32(down))
            r += cuda.gridDim.y

    return unpack


@cache
def _make_put(width: int, shift: int) -> Function:
    """put(words, j, code): the code into lane j, which was zero."""
    straddles = 32 % width != 0

    @device
    def put(words, j, code):
        start = j * width + shift
        moved = np.uint32(code << np.uint32(start & 31))
        words[start >> 5] = np.uint32(words[start >> 5] | moved)
        if straddles and (start & 31) + width - shift > 32:
            rest = np.uint32(code >> np.uint32(32 - (start & 31)))
            words[(start >> 5) + 1] = np.uint32(words[(start >> 5) + 1] | rest)

    return put


def _number_bits(row: Format) -> Function:
    """bits(top): a number at the top of 32 bits as a float32, whose NaN keeps its sign."""

    mask = 0xFFFFFFFF << (32 - row.bits) & 0xFFFFFFFF  # below a code stand the bits of others

    @device
    def cut(top):
        return np.uint32(top & np.uint32(mask))

    @device
    def widened(top):
        size = np.uint32(ptx.as_bits(ptx.high_half(top)) & np.uint32(0x7FFFFFFF))
        return np.uint32(size | np.uint32(top & np.uint32(SIGN)))

    return widened if row.name == "fp16" else cut


def _make_result_bits(row: Format) -> Function:
    """bits(x): a float32 rounded once to the result, NaN canonical."""
    code_of = make_encoder(resolve(row))

    @device
    def bits(x):
        return code_of(ptx.as_bits(x))

    return bits
