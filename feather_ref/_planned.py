"""Plans for whole files: make one from the tensors of a file, and pack the file by it.

Memory stays near one tensor, as in `repack`.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from feather_ref._choices import parse_choice
from feather_ref._safetensors import short
from feather_ref._storedblocks import BlockNote
from feather_ref._sweep import Array
from feather_ref.allocate import DEFAULT_FORMATS, Measured, Plan, check_fits, fingerprint, measure
from feather_ref.files import ByteOrder, PathLike, TensorFile, load, writer
from feather_ref.formats import Format
from feather_ref.repack import (
    PACKED_ALREADY,
    Announced,
    Line,
    Progress,
    announce_blocks,
    announce_copy,
    announce_packed,
    choose,
    copy,
    each,
    numbers,
    put_blocks,
    put_packed,
    refuse_same,
    why_copied,
)
from feather_ref.tensors import PackedTensor


class _Floats(Mapping[str, Array]):
    """The float tensors of a file that were chosen."""

    def __init__(self, tensors: TensorFile, names: Sequence[str]) -> None:
        self.tensors, self.names = tensors, names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> Array:
        return numbers(self.tensors[name])


def measure_file(
    source: PathLike,
    formats: Sequence[str | Format] = DEFAULT_FORMATS,
    error: str = "mse",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
) -> Measured:
    """Measure the float tensors of a file in each format; `plan` of the answer makes a plan.

    include, exclude: patterns of names.  The rest: as for `allocate`.

    Raises what `load` and `allocate` raise, and ValueError where nothing is left to choose for.
    """
    with load(source) as tensors:
        chosen = choose(tensors, include, exclude)
        names = [name for name in tensors if not why_copied(tensors, name, chosen)]
        if not names:
            raise ValueError(f"{tensors.path}: no float tensor is chosen")
        return measure(_Floats(tensors, names), formats, error, fingerprint(tensors.stored), progress)


def pack_planned(
    source: PathLike,
    target: PathLike,
    plan: Plan,
    progress: Progress | None = None,
    byte_order: ByteOrder = "little",
) -> list[Line]:
    """Pack a file by a plan; tensors that it does not name are copied.  byte_order: as for `pack_file`.

    Raises what `pack_file` raises, and ValueError for a plan of another file; the target is then as it was.
    """
    with load(source) as tensors:
        refuse_same(tensors, target)
        for name in tensors:
            if name in plan.formats and why_copied(tensors, name, {name}) == PACKED_ALREADY:
                raise ValueError(f"plan: tensor {short(name)} of {tensors.path} is packed already")
        check_fits(plan, tensors.stored, str(tensors.path))
        choices = {name: parse_choice(fmt) for name, fmt in plan.formats.items()}
        announced = Announced({}, {}, {})
        for name in tensors:
            if name not in choices:
                announce_copy(announced, tensors, name)
            elif why := why_copied(tensors, name, {name}):
                raise ValueError(f"plan: tensor {short(name)} cannot be packed: {why}")
            elif isinstance(fmt := choices[name].fmt, Format):
                announce_packed(announced, tensors, name, fmt, choices[name].scale)
            else:
                announce_blocks(announced, tensors, name, BlockNote(fmt, tensors.stored[name].shape))

        with writer(target, announced.forms, announced.notes, tensors.metadata, announced.blocks, byte_order) as put:

            def work(name: str) -> Line:
                if name not in choices:
                    return copy(put, tensors, name, "not in the plan")
                x = numbers(tensors[name])
                try:
                    packed = choices[name].quantize(x, plan.error)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"tensor {short(name)}: {error}") from None
                if isinstance(packed, PackedTensor):
                    return put_packed(put, tensors.stored[name], name, x, packed)
                return put_blocks(put, tensors.stored[name], name, x, packed, announced.blocks[name])

            return each(tensors, list(tensors), work, progress)
