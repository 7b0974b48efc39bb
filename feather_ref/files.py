"""Files of tensors: .npy, .npz, .safetensors and .gguf as mappings of arrays and packed tensors.

`load` maps or reads one tensor at a time.  `save` knows every size beforehand, so each tensor goes
straight to its place in a new file beside the target, which takes the target's place at the end:
a target is whole, or as it was.  How packed tensors lie in .safetensors and
.gguf is in `_stored`, `_storedblocks` and `_storedgguf`.

Source: the formats, in `_safetensors`, `_npy` and `_gguf`.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, NamedTuple, get_args
from weakref import finalize

import numpy as np

from feather_ref import _gguf, _npy, _safetensors
from feather_ref._mixed import MixedBlockTensor
from feather_ref._safetensors import BITS, Form, short
from feather_ref._sources import bits_of, refuse_masked, row_of
from feather_ref._splitgguf import check_part, check_whole, own_pairs, part_paths
from feather_ref._stored import KEY, NUMPY, Note, form_of, from_metadata, read_scale, to_bytes, to_metadata, to_words
from feather_ref._storedblocks import (
    BLOCK_KEY,
    BlockNote,
    block_data,
    block_forms,
    block_metadata,
    block_notes,
    note_of,
    read_blocks,
)
from feather_ref._storedgguf import BLOCKS, Texts, block_bytes, gguf_forms, pairs_of, read_part
from feather_ref._sweep import Array
from feather_ref.blocks import BlockTensor
from feather_ref.tensors import PackedTensor
from feather_ref.words import codes_to_words

PathLike = str | os.PathLike[str]
Tensor = Array | PackedTensor | BlockTensor | MixedBlockTensor
Put = Callable[[str, Iterable[Array]], None]
ByteOrder = Literal["little", "big"]
BYTE_ORDERS: tuple[str, ...] = get_args(ByteOrder)

SUFFIXES = (".npy", ".npz", ".safetensors", ".gguf")

_NAMES = {dtype: name for name, dtype in NUMPY.items()}


# --- read -------------------------------------------------------------------------------------


class Stored(NamedTuple):
    """A tensor as its file has it; `read` gives an array, or flat bytes where NumPy has no such dtype."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    read: Callable[[], Array]


class TensorFile(Mapping[str, Tensor]):
    """The tensors of a file by name, each read when it is asked for; a scale belongs to its tensor.

    stored: every tensor as it lies in the file, scales too.  notes: of the packed ones.  blocks: of
    those in blocks.  metadata: of a .safetensors or .gguf file.  paths: the file, and its other parts.
    byte_order: of a .gguf file, "little" of any other.
    """

    def __init__(self, path: PathLike) -> None:
        """Open a file and check its header."""
        self.path = Path(path)
        reader = _READERS[_suffix(self.path)]
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{self.path}: is not a file")  # a pipe would wait for ever
        files = ExitStack()
        self.close = finalize(self, files.close)
        try:
            self.stored, self.metadata, found, self.paths, self.byte_order = reader(self.path, files)
            self.blocks = found | block_notes(self.metadata, self.stored)
            owned = {part for name, note in self.blocks.items() for part in block_forms(name, note)}
            self.notes = from_metadata(
                self.metadata, {name: form for name, form in self.stored.items() if name not in owned}
            )
        except ValueError as error:
            self.close()
            raise ValueError(f"{self.path}: {error}") from None
        except OSError:
            self.close()
            raise
        self.scales = owned - self.blocks.keys()
        self.scales |= {note.scale for note in self.notes.values() if note.scale is not None}

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.stored if name not in self.scales)

    def __len__(self) -> int:
        return len(self.stored) - len(self.scales)

    def __getitem__(self, name: str) -> Tensor:
        if name in self.scales:
            raise KeyError(name)
        stored, note = self.stored[name], self.notes.get(name)
        try:
            if name in self.blocks:
                data = {part: self.stored[part].read() for part in self.parts(name)}
                return read_blocks(name, self.blocks[name], data)
            return _array(stored) if note is None else self._packed(stored, note)
        except ValueError as error:
            raise ValueError(f"{self.path}: tensor {short(name)}: {error}") from None

    def parts(self, name: str) -> tuple[str, ...]:
        """The stored tensors that make one: itself, and its scales."""
        if name in self.blocks:
            return tuple(block_forms(name, self.blocks[name]))
        note = self.notes.get(name)
        return (name,) if note is None or note.scale is None else (name, note.scale)

    def _packed(self, stored: Stored, note: Note) -> PackedTensor:
        scale = None
        if note.scale is not None:
            other = self.stored[note.scale]
            scale = read_scale(other.read(), other.dtype, other.shape, note)
        return PackedTensor(to_words(stored.read(), stored.dtype, note), scale, note.shape, note.row, note.order)


def load(path: PathLike) -> TensorFile:
    """The tensors of a .npy, .npz, .safetensors or .gguf file, as a mapping from names.

    Each value is an array, or a `PackedTensor` where the file holds codes; the one tensor of an .npy
    file is called like the file.  Arrays of .npy and .safetensors are mapped, read-only.

    >>> from tempfile import TemporaryDirectory
    >>> from feather_ref.tensors import pack_tensor
    >>> with TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.safetensors", {"w": pack_tensor([[0.5, 2.0]], "e4m3", scale="row")})
    ...     with load(f"{folder}/a.safetensors") as tensors:
    ...         print(hex(tensors["w"].words[0, 0]), tensors["w"].dequantize())
    0x7e6e [[0.5 2. ]]

    Raises OSError, and ValueError for a file that is not what its name says.
    """
    return TensorFile(path)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: the name must end in {', '.join(SUFFIXES)}")
    return suffix


def _mapped(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Array:
    """Part of a file as an array; there is no empty map."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", offset, shape).view(np.ndarray)


class Opened(NamedTuple):
    """What a header says."""

    stored: dict[str, Stored]
    metadata: dict[str, str]
    blocks: dict[str, BlockNote]
    paths: tuple[Path, ...]
    byte_order: ByteOrder = "little"


def _open(path: Path, files: ExitStack) -> tuple[BinaryIO, int]:
    """A file that is closed with the others, and its size."""
    file = files.enter_context(path.open("rb"))
    return file, os.fstat(file.fileno()).st_size


def _placed(file: BinaryIO, name: str, place: _safetensors.Place, order: _gguf.Order = "<") -> Stored:
    """A tensor in its place; flat bytes where NumPy has no such dtype.  order: of its bytes in the file."""
    size = place.end - place.begin
    dtype = NUMPY.get(place.dtype, np.dtype(np.uint8))
    shape = place.shape if place.dtype in NUMPY else (size,)
    if order == "<":
        return Stored(place.dtype, place.shape, size, partial(_mapped, file, dtype, shape, place.begin))

    def read() -> Array:
        data = _mapped(file, np.dtype(np.uint8), (size,), place.begin)
        return _gguf.swapped(data, place.dtype, name).view(dtype).reshape(shape)

    return Stored(place.dtype, place.shape, size, read)


def _open_safetensors(path: Path, files: ExitStack) -> Opened:
    file, size = _open(path, files)
    header = _safetensors.read_header(file, size)
    stored = {name: _placed(file, name, place) for name, place in header.places.items()}
    return Opened(stored, header.metadata, {}, (path,))


def _open_gguf(path: Path, files: ExitStack) -> Opened:
    file, size = _open(path, files)
    parts = [(file, _gguf.read_header(file, size))]
    first = parts[0][1]
    paths = part_paths(path, first)
    for no, other in enumerate(paths, 1):
        file, size = _open(other, files)
        try:
            header = _gguf.read_header(file, size)
            check_part(header, no, first)
        except ValueError as error:
            raise ValueError(f"{other.name}: {error}") from None
        parts.append((file, header))
    check_whole([header for _, header in parts])
    placed = {
        name: _placed(file, name, place, header.order)
        for file, header in parts
        for name, place in header.places.items()
    }
    stored, blocks = _unblocked(placed)
    byte_order: ByteOrder = "big" if first.order == ">" else "little"
    return Opened(stored, Texts(dict(own_pairs(first))), blocks, (path, *paths), byte_order)


def _unblocked(placed: Mapping[str, Stored]) -> tuple[dict[str, Stored], dict[str, BlockNote]]:
    """The tensors of a GGUF file, those in blocks as their parts, and notes of these."""
    stored: dict[str, Stored] = {}
    blocks = {}
    for name, whole in placed.items():
        parts = {name: whole}
        if whole.dtype in BLOCKS:
            note = blocks[name] = BlockNote(BLOCKS[whole.dtype], whole.shape)
            for part, form in block_forms(name, note).items():
                read = partial(read_part, whole.read, name, note, part)
                parts[part] = Stored(*form, _safetensors.nbytes(form, part), read)
        if taken := parts.keys() & (stored.keys() | placed.keys()) - {name}:
            raise ValueError(f"tensor {short(name)}: its scale would take the name of {short(min(taken))}")
        stored |= parts
    return stored, blocks


def _open_npy(path: Path, files: ExitStack) -> Opened:
    file, size = _open(path, files)
    header = _npy.read_header(file, size)
    count = (math.prod(header.shape),)

    def read() -> Array:
        return header.arrange(_mapped(file, header.dtype, count, header.size))

    stored = {path.stem: Stored(_label(header.dtype), header.shape, header.nbytes, read)}
    return Opened(stored, {}, {}, (path,))


def _open_npz(path: Path, files: ExitStack) -> Opened:
    file, size = _open(path, files)
    archive = _npy.open_archive(file)
    stored = {}
    for name, (header, info) in _npy.members(archive, size).items():
        read = partial(_npy.read_member, archive, info, header)
        stored[name] = Stored(_label(header.dtype), header.shape, header.nbytes, read)
    return Opened(stored, {}, {}, (path,))


_READERS = {".npy": _open_npy, ".npz": _open_npz, ".safetensors": _open_safetensors, ".gguf": _open_gguf}


def _label(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in safetensors, or NumPy's where it has none."""
    return _NAMES.get(dtype.newbyteorder("<"), dtype.name)


def _array(stored: Stored) -> Array:
    if not is_known(stored.dtype):
        raise ValueError(f"how {stored.dtype} lies in bytes is not known here; it can only be copied")
    return stored.read()


def is_known(dtype: str) -> bool:
    """Whether the numbers of a dtype without a note can be read: NumPy has it."""
    return dtype in NUMPY or dtype not in (BITS.keys() | _gguf.TYPES.keys())


# --- write ------------------------------------------------------------------------------------


def save(
    path: PathLike,
    tensors: Mapping[str, object],
    metadata: Mapping[str, str] | None = None,
    byte_order: ByteOrder = "little",
) -> None:
    """Write arrays and packed tensors to an .npy, .npz, .safetensors or .gguf file.

    tensors: by name; a `PackedTensor`, a tensor in blocks of a named format, or whatever
    `numpy.asarray` takes.  Packed tensors and blocks need .safetensors, or .gguf for fp16, bf16, q8_0,
    q4_0, mxfp4 and ggml_nvfp4; an .npy file holds one array.  metadata: free text, for .safetensors and
    .gguf.  byte_order: "big" writes a .gguf file for machines of that order; it is read here as any other.

    Raises OSError, and TypeError or ValueError naming the tensor that cannot be stored, or metadata that a
    file of this kind does not have.
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors must be a mapping from names, got {type(tensors).__name__}")
    if metadata and _suffix(Path(path)) in (".npy", ".npz"):
        raise ValueError(f"metadata: {os.fspath(path)!r} has no place for it")
    items = {name: _as_tensor(name, tensor) for name, tensor in tensors.items()}
    forms: dict[str, Form] = {}
    notes: dict[str, Note] = {}
    pieces: dict[str, Array] = {}
    blocks: dict[str, BlockNote] = {}
    for name, tensor in items.items():
        if isinstance(tensor, (BlockTensor, MixedBlockTensor)):
            blocks[name] = note_of(name, tensor)
            parts = block_forms(name, blocks[name])
            if taken := parts.keys() & (items.keys() | forms.keys()) - {name}:
                raise ValueError(f"tensor {short(min(taken))}: a part of {short(name)} needs this name")
            forms |= parts
            pieces |= block_data(name, tensor, blocks[name])
            continue
        if not isinstance(tensor, PackedTensor):
            forms[name], pieces[name] = Form(_label(tensor.dtype), tensor.shape), tensor
            continue
        forms[name], pieces[name] = form_of(tensor.fmt, tensor.shape), to_bytes(tensor)
        scale = None if tensor.scale is None else f"{name}_scale"
        notes[name] = Note(tensor.fmt, tensor.shape, tensor.order, scale)
        if scale is not None and tensor.scale is not None:
            if scale in items:
                raise ValueError(f"tensor {short(scale)}: the scale of {short(name)} needs this name")
            forms[scale], pieces[scale] = Form("F32", tensor.scale.shape), tensor.scale
    with writer(path, forms, notes, metadata, blocks, byte_order) as put:
        for name, piece in pieces.items():
            put(name, [piece])


def _as_tensor(name: object, tensor: object) -> Tensor:
    """An array or a packed tensor; codes that NumPy knows by ml_dtypes are packed."""
    if not isinstance(name, str):
        raise TypeError(f"tensors: names are text, got {type(name).__name__}")
    if isinstance(tensor, (PackedTensor, BlockTensor, MixedBlockTensor)):
        return tensor
    refuse_masked(tensor, f"tensor {short(name)}")
    array = np.asarray(tensor)
    if array.dtype.newbyteorder("<") in _NAMES:
        return array
    try:
        row = None if array.dtype.kind == "c" else row_of(array.dtype)
    except TypeError:
        raise TypeError(f"tensor {short(name)}: dtype {array.dtype} is not plain numbers") from None
    if row is None:  # complex128 and longdouble, which .npy knows
        return array
    codes = bits_of(array) & np.asarray(row.code_mask, f"u{array.itemsize}")
    return PackedTensor(codes_to_words(np.atleast_1d(codes), row, "little"), None, array.shape, row)


def _check_metadata(metadata: object) -> None:
    """Refuse what is no mapping from text to text."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of texts, got {type(metadata).__name__}")
    for pair in metadata.items():
        for text in pair:
            if not isinstance(text, str):
                raise TypeError(f"metadata: keys and values are text, got {type(text).__name__} {short(str(text))}")
            _check_unicode("metadata", text)


def _check_unicode(what: str, text: str) -> None:
    """Refuse half of a surrogate pair, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: {short(text)} is not Unicode text") from None


@contextmanager
def writer(
    path: PathLike,
    forms: Mapping[str, Form],
    notes: Mapping[str, Note],
    metadata: Mapping[str, str] | None = None,
    blocks: Mapping[str, BlockNote] = MappingProxyType({}),
    byte_order: ByteOrder = "little",
) -> Iterator[Put]:
    """A function put(name, pieces) that writes the tensors announced in forms, each once.

    forms: every tensor, scales too.  notes: of the packed ones.  blocks: of those in blocks.
    byte_order: "little", or "big" for .gguf.  The file appears when the `with` block ends, and does not
    when it raises.
    """
    target = Path(path)
    suffix = _suffix(target)
    _check_metadata({} if metadata is None else metadata)
    for name in forms:
        _check_unicode("tensors", name)
    if byte_order not in BYTE_ORDERS or (byte_order == "big" and suffix != ".gguf"):
        raise ValueError(f"byte_order must be 'little', or 'big' for .gguf; got {byte_order!r} for {suffix}")
    if suffix == ".gguf":
        order: _gguf.Order = ">" if byte_order == "big" else "<"
        with _write_gguf(target, gguf_forms(forms, notes, blocks), blocks, metadata or {}, order) as put:
            yield put
        return
    if suffix != ".safetensors":
        for name, form in forms.items():
            if name in notes or name in blocks or not is_known(form.dtype):
                raise ValueError(f"tensor {short(name)}: {suffix} holds no packed tensor; unpack it")
    elif bad := [name for name, form in forms.items() if form.dtype not in BITS]:
        raise ValueError(f"tensor {short(bad[0])}: safetensors has no dtype for {forms[bad[0]].dtype}")
    own = {key: text for key, text in (metadata or {}).items() if not key.startswith((KEY, BLOCK_KEY))}
    with _WRITERS[suffix](target, forms, {**own, **to_metadata(notes, forms), **block_metadata(blocks)}) as put:
        yield put


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place at the end, or vanishes."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():
        raise ValueError(f"{path}: is there, and is not a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:  # an interrupt too
        with suppress(OSError):
            beside.unlink()
        raise


def _little(piece: Array) -> memoryview:
    """An array as its bytes, little-endian and in C order."""
    return np.ascontiguousarray(piece, piece.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


@contextmanager
def _write_safetensors(path: Path, forms: Mapping[str, Form], metadata: Mapping[str, str]) -> Iterator[Put]:
    text, header = _safetensors.make_header(forms, metadata)
    with replacing(path) as file:
        file.write(text)

        yield lambda name, pieces: _fill(file, name, header.places[name], pieces)


def _fill(file: BinaryIO, name: str, place: _safetensors.Place, pieces: Iterable[Array]) -> None:
    """Write a tensor in its place."""
    file.seek(place.begin)
    for piece in pieces:
        file.write(_little(piece))
    if file.tell() != place.end:
        raise RuntimeError(f"tensor {short(name)}: {file.tell() - place.begin} bytes, not those of {place}")


@contextmanager
def _write_gguf(
    path: Path, forms: Mapping[str, Form], blocks: Mapping[str, BlockNote], metadata: Mapping[str, str],
    order: _gguf.Order,
) -> Iterator[Put]:
    text, header = _gguf.make_header(forms, pairs_of(metadata, forms), order)
    owner = {part: name for name, note in blocks.items() for part in block_forms(name, note)}
    waiting: dict[str, dict[str, Array]] = {}  # parts that came before the last of their tensor
    with replacing(path) as file:
        file.write(text)
        file.truncate(header.size)  # with zeros to the end

        def put(name: str, pieces: Iterable[Array]) -> None:
            if name in owner:
                tensor = owner[name]
                parts = waiting.setdefault(tensor, {})
                (parts[name],) = pieces
                if len(parts) < len(block_forms(tensor, blocks[tensor])):
                    return
                name, pieces = tensor, [block_bytes(tensor, blocks[tensor], waiting.pop(tensor))]
            place = header.places[name]
            if order == ">":
                flat = (np.frombuffer(_little(piece), np.uint8) for piece in pieces)
                pieces = (_gguf.swapped(data, place.dtype, name) for data in flat)
            _fill(file, name, place, pieces)

        yield put


def _npy_pieces(form: Form, pieces: Iterable[Array]) -> Iterator[memoryview]:
    dtype = NUMPY.get(form.dtype) or np.dtype(form.dtype)
    return itertools.chain([memoryview(_npy.header_bytes(dtype, form.shape))], map(_little, pieces))


@contextmanager
def _write_npz(path: Path, forms: Mapping[str, Form], metadata: Mapping[str, str]) -> Iterator[Put]:
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        yield lambda name, pieces: _npy.write_member(archive, name, _npy_pieces(forms[name], pieces))


@contextmanager
def _write_npy(path: Path, forms: Mapping[str, Form], metadata: Mapping[str, str]) -> Iterator[Put]:
    if len(forms) != 1:
        raise ValueError(f"{path}: an .npy file holds one tensor, not {len(forms)}")
    with replacing(path) as file:
        yield lambda name, pieces: file.writelines(_npy_pieces(forms[name], pieces))


_WRITERS = {".npy": _write_npy, ".npz": _write_npz, ".safetensors": _write_safetensors}
