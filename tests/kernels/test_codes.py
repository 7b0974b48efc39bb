"""encode, decode, pack, unpack: every code, every deciding number, every shape, against feather_ref."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target
from feather_kernels.decoders import make_decoder, make_nan_flag
from kernel_inputs import ROWS, deciding_numbers, in_turn, same_bits, some_codes, some_rows

FLOAT_ROWS = [row for row in ROWS if row.kind == "float"]
BEYOND = "binary8p1ue"  # its least normal is no normal float32
ENCODED = [row for row in ROWS if row.name != BEYOND]
by_name = pytest.mark.parametrize("row", ROWS, ids=str)
encoded = pytest.mark.parametrize("row", ENCODED, ids=str)


@by_name
def test_decode_is_exact_on_every_code(row: fr.Format) -> None:
    codes = some_codes(row)
    assert same_bits(fk.decode(codes, row), fr.decode(codes, row))


@by_name
def test_unpack_reads_every_lane(row: fr.Format) -> None:
    n = 2 * row.period[0] + 3
    codes = np.resize(np.random.default_rng(1).permutation(some_codes(row)), (3, n)).astype(fr.code_dtype(row))
    words = fr.pack_codes(codes.astype(np.uint32) << np.uint32(row.storage_shift), row.storage_bits)
    assert same_bits(fk.unpack(words, row, n), fr.decode(codes, row))


def policies(row: fr.Format) -> list[dict[str, str]]:
    """Policies that answer every input of a row with a code."""
    nan = ["max", "canonical", "preserve_sign"] if row.has_nan else ["zero"]
    overflow = ["saturate", "nonsaturating", "propagate"]
    negative = [{}] if row.signed else [{"negative": name} for name in ("zero", "abs", *["nan"] * row.has_nan)]
    choices = [{"nan": nan[i % len(nan)], "overflow": over} for i, over in enumerate(overflow)]
    return [{**choice, **minus} for choice in [{"nan": nan[0]}, *choices] for minus in negative]


@encoded
def test_encode_rounds_as_the_codec(row: fr.Format) -> None:
    x = deciding_numbers(row)
    for choice in in_turn(policies(row), row):
        assert same_bits(fk.encode(x, row, **choice), fr.encode(x, row, **choice)), choice


@pytest.mark.parametrize(
    ("row", "dtype"),
    [(row, dtype) for row in some_rows(ENCODED) for dtype in in_turn(["float16", "bfloat16"], row)],
    ids=str,
)
def test_pack_takes_short_floats(row: fr.Format, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.random.default_rng(2).integers(0, 1 << 16, (2, 67)).astype(np.uint16)
    x = bits.view(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    choice = policies(row)[0]
    assert same_bits(fk.pack(x, row, **choice), fr.pack(x, row, **choice))


@settings(max_examples=30)
@given(
    st.sampled_from(some_rows(ENCODED)),
    st.sampled_from([np.float32, np.float16]),
    st.tuples(st.integers(0, 3), st.integers(0, 70)),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_shapes_and_alignment(row: fr.Format, dtype: type, shape: tuple[int, int], skip: int, random: object) -> None:
    """Every tail, rows that begin anywhere, and memory around the result that nobody touches."""
    whole = np.random.default_rng(random.randint(0, 99)).standard_normal(skip + shape[0] * shape[1])
    x = whole.astype(dtype)[skip:].reshape(shape)
    minus = {} if row.signed else {"negative": "abs"}
    assert same_bits(fk.pack(x, row, **minus), fr.pack(x, row, **minus))
    codes = fr.encode(x, row, **minus)
    assert same_bits(fk.encode(x, row, **minus), codes)
    assert same_bits(fk.decode(codes, row), fr.decode(codes, row))
    words = fr.pack(x, row, **minus)
    assert same_bits(fk.unpack(words, row, shape[1]), fr.unpack(words, row, shape[1]))


@pytest.mark.skipif(not _target.SIMULATOR, reason="the result is on the host")
@pytest.mark.parametrize("skip", range(5))
def test_out_is_written_and_nothing_beside_it(skip: int) -> None:
    x = np.linspace(-4, 4, 37, dtype=np.float32)
    memory = np.full(64, 0xEE, np.uint8)
    out = memory[skip : skip + 37]
    assert fk.encode(x, "e4m3", out=out) is out
    assert (out == fr.encode(x, "e4m3")).all()
    assert (np.delete(memory, range(skip, skip + 37)) == 0xEE).all()


def test_a_packed_tensor_brings_its_scale() -> None:
    w = np.random.default_rng(3).standard_normal((5, 33))
    for scale in (None, "row", "tensor"):
        packed = fr.pack_tensor(w, "e3m2", scale=scale)
        assert same_bits(fk.unpack(packed), packed.dequantize())


def test_numbers_may_be_short_where_they_hold_every_value() -> None:
    codes = np.arange(256, dtype=np.uint8)
    assert same_bits(fk.decode(codes, "e4m3", dtype="float16"), fr.decode(codes, "e4m3", "float16"))
    with pytest.raises(ValueError, match="float16 does not hold every value of 'e8m0'"):
        fk.decode(codes, "e8m0", dtype="float16")
    with pytest.raises(ValueError, match="bfloat16 does not hold every value of 'fp16'"):
        fk.decode(codes.astype(np.uint16), "fp16", dtype="bfloat16")


@pytest.mark.skipif(not _target.SIMULATOR, reason="device functions are called as they are")
@pytest.mark.parametrize("row", FLOAT_ROWS, ids=str)
def test_short_decoders_leave_a_power_of_two(row: fr.Format) -> None:
    codes = some_codes(row, 256)
    finite = np.array([not (row.is_nan(int(code)) or row.is_inf(int(code))) for code in codes])
    codes = np.resize(codes[finite], -(-len(codes) // row.period[0]) * row.period[0])
    words = fr.pack_codes(codes.astype(np.uint32) << np.uint32(row.storage_shift), row.storage_bits)
    lanes, count = row.period
    for short_x in (False, True):
        decoder = make_decoder(row, finite=True, deferred=True, short_x=short_x)
        power = 2.0 ** (decoder.factor + decoder.x_factor)
        with np.errstate(all="ignore"):
            one = [float(decoder.lane(words, 0, j)) * power for j in range(len(codes))]
            many = np.empty((len(codes) // lanes, lanes), np.float32)
            for i, group in enumerate(many):
                decoder.group(words, i * count, group)
        assert same_bits(np.array(one, np.float32), fr.decode(codes, row))
        assert same_bits((many.reshape(-1).astype(np.float64) * power).astype(np.float32), fr.decode(codes, row))


@pytest.mark.skipif(not _target.SIMULATOR, reason="device functions are called as they are")
@pytest.mark.parametrize("row", FLOAT_ROWS, ids=str)
def test_the_flag_sees_nan_in_any_lane_and_nothing_else(row: fr.Format) -> None:
    flag = make_nan_flag(row)
    if flag is None:
        full = row.magnitude_mask >> (row.storage_bits - 1)  # no bit left for the carry
        assert not row.has_nan or row.has_inf or 32 % row.storage_bits or full or row.storage_bits == 32
        return
    per = 32 // row.storage_bits
    for code in range(1 << row.bits):
        for lane in range(per):
            others = np.resize([0, row.max_magnitude, row.sign_mask | row.max_magnitude, 1], per)
            others[lane] = code
            word = fr.pack_codes(others.astype(np.uint32), row.storage_bits)[0]
            with np.errstate(over="ignore"):
                assert bool(flag(word)) == row.is_nan(code), (hex(code), lane)


# --- bad input --------------------------------------------------------------------------------


def test_what_the_policy_refuses_is_named_as_the_codec_does() -> None:
    x = np.array([1, 2, np.nan], np.float32)
    with pytest.raises(ValueError, match=r"x\[2\]"):
        fk.encode(x, "e2m1")
    with pytest.raises(ValueError, match=r"x\[1\]"):
        fk.encode(np.array([1, -1], np.float16), "e8m0", negative="error")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: fk.encode(np.zeros(3), "e4m3"), TypeError, "x must be float16, bfloat16 or float32, got float64"),
        (lambda: fk.encode(np.zeros(3, np.float32), BEYOND), ValueError, "no kernel encodes 'binary8p1ue', beyond"),
        (lambda: fk.encode(np.zeros(3, np.float32), "e4m3", rounding="stochastic_a"), ValueError, "stochastic_a"),
        (lambda: fk.encode(np.zeros(3, np.float32), "e4m3", subnormals="flush_input"), ValueError, "subnormals"),
        (lambda: fk.encode(np.zeros(3, np.float32), "e4m3", out=np.zeros(3, np.int8)), TypeError, "out must have"),
        (lambda: fk.encode(np.zeros(3, np.float32), "e4m3", out=np.zeros(4, np.uint8)), ValueError, r"out .*\(3,\)"),
        (lambda: fk.encode(np.array(["a"]), "e4m3"), TypeError, "x: no kernel takes dtype"),
        (lambda: fk.decode(np.zeros(3, np.uint16), "e4m3"), TypeError, "codes must be uint8, got uint16"),
        (lambda: fk.decode(np.zeros(3, np.uint8), "e4m3", dtype="float64"), TypeError, "dtype must be"),
        (lambda: fk.unpack(np.zeros(3, np.uint32)), TypeError, "fmt is missing"),
        (lambda: fk.unpack(np.zeros(3, np.uint32), "e4m3", 13), ValueError, r"n must be 0\.\.12"),
        (lambda: fk.unpack(np.zeros(3, np.float32), "e4m3"), TypeError, "words must be uint32"),
    ],
)
def test_bad_input_is_named(call: object, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.skipif(not _target.SIMULATOR, reason="a GPU takes more")
def test_the_simulator_takes_small_sizes() -> None:
    with pytest.raises(ValueError, match="simulator takes at most 65536 numbers, not 65537: use feather_ref"):
        fk.encode(np.zeros(65537, np.float32), "e4m3")
