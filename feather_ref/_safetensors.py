"""safetensors: the header, read strictly and written as the library writes it.

A file is, without a gap::

    | 8 bytes: N, little-endian | N bytes: JSON, "{" first, spaces last | the data |

    {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}

Offsets count from the start of the data, which is little-endian and in C order; F4 stands two in
a byte, the low nibble first.  A writer sorts by alignment, the widest dtype first, then by name,
and pads the header to a multiple of 8.

The library itself cannot stand here: its NumPy door opens no narrow dtype; before 0.8 it wants
every tensor in memory at once; 0.4.3 knows neither F4 nor F8_E8M0.  All sizes are known before the
first number is packed, so the header comes first and each tensor goes straight to its place.

Source: safetensors 0.8.0, README, "Format", and safetensors/src/tensor.rs, Dtype and prepare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, NamedTuple

BITS: Mapping[str, int] = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Bits of an element; the order is that of rising alignment, by which tensors are sorted."""

_RANK = {dtype: rank for rank, dtype in enumerate(BITS)}
_METADATA = "__metadata__"
_MAX_HEADER = 100_000_000  # the library's limit
_MAX_DIMENSIONS = 64  # NumPy's
_MAX_SIZE = 2**63 - 1


class Form(NamedTuple):
    """How a tensor is stored: the name of its dtype, and its shape in elements."""

    dtype: str
    shape: tuple[int, ...]


class Place(NamedTuple):
    """A form and where its bytes are, counted from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """What a header says: places in the order of the data, and the metadata."""

    places: dict[str, Place]
    metadata: dict[str, str]


def nbytes(form: Form, name: str) -> int:
    """Bytes of a tensor; ValueError where they are not whole or beyond any file.

    >>> nbytes(Form("F4", (3, 2)), "w")
    3
    """
    nonzero = math.prod(size for size in form.shape if size)  # NumPy counts like this, too
    if nonzero * 8 > _MAX_SIZE:
        raise ValueError(f"tensor {short(name)}: shape {list(form.shape)} is too large")
    whole, rest = divmod(math.prod(form.shape) * BITS[form.dtype], 8)
    if rest:
        raise ValueError(f"tensor {short(name)}: {form.dtype} of shape {list(form.shape)} does not fill whole bytes")
    return whole


def short(name: str) -> str:
    """A name as an error message shows it: quoted, one line, not endless."""
    return ascii(name if len(name) <= 80 else name[:77] + "...")


# --- write ------------------------------------------------------------------------------------


def make_header(forms: Mapping[str, Form], metadata: Mapping[str, str]) -> tuple[bytes, Header]:
    """The bytes before the data, and where each tensor goes.

    >>> text, header = make_header({"w": Form("F8_E4M3", (2, 3)), "b": Form("F32", (2,))}, {})
    >>> text[8:].rstrip()
    b'{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[8,14]}}'
    >>> header.places["w"].begin - len(text), int.from_bytes(text[:8], "little") == len(text) - 8
    (8, True)

    Raises ValueError for a name or a text that a header cannot hold.
    """
    if _METADATA in forms:
        raise ValueError(f"tensor {_METADATA!r}: safetensors keeps this name for itself")
    tree: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    spans: dict[str, tuple[int, int]] = {}
    offset = 0
    for name in sorted(forms, key=lambda name: (-_RANK[forms[name].dtype], name.encode())):
        spans[name] = offset, offset + nbytes(forms[name], name)
        offset = spans[name][1]
        tree[name] = {**forms[name]._asdict(), "data_offsets": spans[name]}
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER:
        raise ValueError(f"the header has {len(text)} bytes; at most {_MAX_HEADER} can be read again")
    start = 8 + len(text)
    places = {name: Place(*forms[name], start + begin, start + end) for name, (begin, end) in spans.items()}
    return len(text).to_bytes(8, "little") + text, Header(places, dict(metadata))


# --- read -------------------------------------------------------------------------------------


def read_header(file: BinaryIO, size: int) -> Header:
    """Read and check the header of a file of `size` bytes, opened at its start.

    Every byte behind the header must belong to exactly one tensor.  Raises ValueError.
    """
    text = _read_text(file, size)
    try:
        tree = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the header is not JSON: {error}") from None
    metadata = tree.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError(f"the header's {_METADATA} is not a map from text to text")
    start = 8 + len(text)
    found = [_read_place(name, fields, size - start) for name, fields in tree.items()]
    found.sort(key=lambda item: (item[1].begin, item[1].end))
    _check_cover(found, size - start)
    places = {name: place._replace(begin=start + place.begin, end=start + place.end) for name, place in found}
    return Header(places, metadata)


def _read_text(file: BinaryIO, size: int) -> bytes:
    prefix = file.read(8)
    if len(prefix) < 8:
        raise ValueError(f"it has {size} bytes; a safetensors file begins with 8 for the length of its header")
    length = int.from_bytes(prefix, "little")
    if length > min(size - 8, _MAX_HEADER):
        raise ValueError(f"its header would have {length} bytes; the file has {size}, and the limit is {_MAX_HEADER}")
    text = file.read(length)
    if len(text) < length or not text.startswith(b"{"):
        raise ValueError("its header does not begin with '{'; it is no safetensors file, or truncated")
    return text


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"{short(key)} stands there twice")
        result[key] = value
    return result


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _read_place(name: str, fields: Any, size: int) -> tuple[str, Place]:
    """One tensor's entry; its offsets still count from the start of the data, of `size` bytes."""
    where = f"tensor {short(name)}"
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{where}: the header gives not just dtype, shape and data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"{where}: unknown dtype {short(str(dtype))}; known: {', '.join(BITS)}")
    if not _are_sizes(shape) or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"{where}: shape is not a list of at most {_MAX_DIMENSIONS} sizes")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size:
        raise ValueError(f"{where}: data_offsets is not two rising offsets in {size} bytes; is the file truncated?")
    place = Place(dtype, tuple(shape), *offsets)
    expected = nbytes(Form(dtype, place.shape), name)
    if place.end - place.begin != expected:
        raise ValueError(f"{where}: {dtype} {shape} fills {expected} bytes, not {place.end - place.begin}")
    return name, place


def _are_sizes(values: Any) -> bool:
    """Whether these are integers that a size can be; True and False are none."""
    return isinstance(values, list) and all(type(value) is int and 0 <= value <= _MAX_SIZE for value in values)


def _check_cover(found: list[tuple[str, Place]], size: int) -> None:
    """Refuse overlaps and gaps, which could hide something."""
    end = 0
    for name, place in found:
        if place.begin != end:
            raise ValueError(f"tensor {short(name)}: begins at byte {place.begin} of the data, not {end}")
        end = place.end
    if end != size:
        raise ValueError(f"the tensors fill {end} bytes, and the data has {size}")
