""".npy and .npz: the header of an array, read strictly; the members of an archive.

    | 93 "NUMPY" | major, minor | header length: 2 bytes (1.0) or 4 (2.0) | header | the data |

The header is a Python literal, {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}.  An .npz
file is a zip archive of them, each with .npy behind its name.

NumPy's own reader answers a broken file with a dozen kinds of exception, and believes the sizes
that an archive claims; here both end in a ValueError before memory is taken.

Source: NumPy Enhancement Proposal 1; numpy.lib.format; APPNOTE.TXT (zip) 6.3.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MAGIC = b"\x93NUMPY"
_LENGTH = {(1, 0): "<H", (2, 0): "<I"}
_MAX_HEADER = 10_000  # NumPy's limit; literals below it cannot hurt the parser
_MAX_DIMENSIONS = 64
_ITEMS = re.compile(
    r"""\{(?:\s*['"](?:"""
    r"""descr['"]\s*:\s*['"](?P<descr>[<>|=]?[biufc]\d{0,2})['"]|"""
    r"""fortran_order['"]\s*:\s*(?P<fortran>True|False)|"""
    r"""shape['"]\s*:\s*\((?P<shape>(?:\s*\d{1,19}\s*,)*(?:(?<=,)\s*\d{1,19}\s*)?)\s*\))"""
    r"""\s*(?:,|(?=\}))){3}\s*\}\s*"""
)  # each of the three once, in any order
_STREAM = 1 << 20
_DEFLATE_RATIO = 1032  # the most that deflate can save
_BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OverflowError, struct.error)


class Header(NamedTuple):
    """What a header says, and how many bytes it takes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    size: int

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize

    def arrange(self, data: Array) -> Array:
        """The flat data in its shape: a view."""
        return data.reshape(self.shape, order="F" if self.fortran else "C")


# --- one array --------------------------------------------------------------------------------


def read_header(file: IO[bytes], size: int) -> Header:
    """Read and check the header of an .npy file of `size` bytes.  Raises ValueError."""
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8:
        raise ValueError("it does not begin as an .npy file")
    code = _LENGTH.get((start[6], start[7]))
    if code is None:
        raise ValueError(f".npy version {start[6]}.{start[7]}: only 1.0 and 2.0 hold plain numbers")
    prefix = file.read(struct.calcsize(code))
    if len(prefix) < struct.calcsize(code):
        raise ValueError("its header is truncated")
    (length,) = struct.unpack(code, prefix)
    text = file.read(length) if length <= _MAX_HEADER else b""
    if len(text) < length:
        raise ValueError(f"its header would have {length} bytes; it is truncated, or longer than {_MAX_HEADER}")
    dtype, shape, fortran = _parse(text.decode("latin1"))
    header = Header(dtype, shape, fortran, len(start) + len(prefix) + length)
    if header.size + header.nbytes != size:
        raise ValueError(f"{dtype} {list(shape)} fills {header.nbytes} bytes, and the data has {size - header.size}")
    return header


def _parse(text: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """dtype, shape and order; the literal is matched, never evaluated."""
    match = _ITEMS.fullmatch(text)
    if not match or None in match.group("descr", "fortran", "shape"):
        raise ValueError("its header is not descr, fortran_order and shape of plain numbers; nothing else is read")
    shape = tuple(int(size) for size in re.findall(r"\d+", match["shape"]))
    if len(shape) > _MAX_DIMENSIONS or math.prod(size for size in shape if size) >= 1 << 58:
        raise ValueError("its shape is too large")
    try:
        return np.dtype(match["descr"]), shape, match["fortran"] == "True"
    except TypeError:
        raise ValueError(f"NumPy knows no dtype {match['descr']!r}") from None


def header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The header of an array in C order.

    >>> header_bytes(np.dtype("<f4"), (2, 3))[10:].rstrip()
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    """
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(text, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return text.getvalue()


# --- an archive -------------------------------------------------------------------------------


@contextmanager
def broken_as_value_error() -> Iterator[None]:
    """What zipfile raises for a broken archive, as ValueError."""
    try:
        yield
    except _BROKEN as error:
        raise ValueError(f"its zip archive is broken: {error or type(error).__name__}") from None


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """The archive in an open file.  Raises ValueError."""
    with broken_as_value_error():
        return zipfile.ZipFile(file)


def members(archive: zipfile.ZipFile, size: int) -> dict[str, tuple[Header, zipfile.ZipInfo]]:
    """Names and headers of the arrays in an archive of `size` bytes.  Raises ValueError."""
    found: dict[str, tuple[Header, zipfile.ZipInfo]] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename or name in found:
            raise ValueError(f"member {ascii(info.filename)[:80]} stands there twice or is no .npy")
        # so that a claimed size cannot ask for more memory than the file can fill
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise ValueError(f"member {ascii(info.filename)[:80]} is encrypted, or neither stored nor deflated")
        ratio = _DEFLATE_RATIO if info.compress_type == zipfile.ZIP_DEFLATED else 1
        if not 0 <= info.compress_size <= size or info.file_size > ratio * info.compress_size:
            raise ValueError(f"member {ascii(info.filename)[:80]} claims {info.file_size} bytes")
        try:
            with broken_as_value_error(), archive.open(info) as stream:
                found[name] = read_header(stream, info.file_size), info
        except ValueError as error:
            raise ValueError(f"member {ascii(info.filename)[:80]}: {error}") from None
    return found


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> Array:
    """The array of a member; with its last byte zipfile compares the checksum.  Raises ValueError."""
    data = np.empty(header.nbytes, np.uint8)
    done = 0
    with broken_as_value_error(), archive.open(info) as stream:
        stream.read(header.size)
        while done < data.size:
            piece = stream.read(min(_STREAM, data.size - done))
            if not piece:
                raise EOFError("a member is truncated")
            data[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)
    return header.arrange(data.view(header.dtype))


def write_member(archive: zipfile.ZipFile, name: str, pieces: Iterable[memoryview]) -> None:
    """Store a member piece by piece; the same bytes for the same arrays, whatever the day."""
    info = zipfile.ZipInfo(f"{name}.npy")
    if info.filename != f"{name}.npy":
        raise ValueError(f"tensor {ascii(name)[:80]}: a zip archive cannot keep this name")
    with archive.open(info, "w", force_zip64=True) as stream:
        for piece in pieces:
            stream.write(piece)
