"""GGUF files in parts: model-00001-of-00003.gguf is the first of three.

Each part is a whole GGUF file with tensors of its own, or none.  The first one has the metadata; all say
"split.no" (from 0), "split.count" and, of the whole model, "split.tensors.count".  Only the first one
is opened by name.

Source: llama.cpp, src/llama-arch.cpp and tools/gguf-split; the gguf package, gguf_writer.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from feather_ref._gguf import Header, Pair
from feather_ref._safetensors import short

_NO, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
_KEYS = (_NO, _COUNT, _TENSORS)
_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)


def part_paths(path: Path, first: Header) -> list[Path]:
    """The other parts of a file, in their order.  Raises ValueError where it is a part, but not the first."""
    count, no = _number(first, _COUNT, 1), _number(first, _NO, 0)
    if count == 1:
        return []
    found = _NAME.fullmatch(path.name)
    if not found or (int(found[2]), int(found[3])) != (no + 1, count):
        wanted = f"...-{no + 1:05}-of-{count:05}.gguf"
        raise ValueError(f"it says that it is part {no + 1} of {count}, and is not named {wanted}")
    paths = [path.with_name(f"{found[1]}-{i + 1:05}-of-{count:05}{found[4]}") for i in range(count)]
    if no:
        raise ValueError(f"it is part {no + 1} of {count}; open the first, {paths[0].name}")
    if missing := [other.name for other in paths if not other.is_file()]:
        raise ValueError(f"of its {count} parts {len(missing)} are missing: {', '.join(missing[:3])}")
    return paths[1:]


def check_part(header: Header, no: int, first: Header) -> None:
    """Refuse a part that does not go with the first one.  no: from 0."""
    for key, wanted in ((_NO, no), (_COUNT, _number(first, _COUNT, 1))):
        if (found := _number(header, key, -1)) != wanted:
            raise ValueError(f"{key} is {found}, not {wanted}")
    for key, pair in header.pairs.items():
        if key not in _KEYS and first.pairs.get(key) != pair:
            raise ValueError(f"{short(key)} is not what the first part says")


def check_whole(headers: Sequence[Header]) -> None:
    """Refuse parts with one tensor twice, or not all of them."""
    names: set[str] = set()
    for header in headers:
        if twice := names & header.places.keys():
            raise ValueError(f"tensor {short(min(twice))}: two parts have it")
        names |= header.places.keys()
    wanted = _number(headers[0], _TENSORS, len(names))
    if wanted != len(names):
        raise ValueError(f"{_TENSORS} is {wanted}, and the parts have {len(names)}")


def own_pairs(first: Header) -> Iterator[tuple[str, Pair]]:
    """The metadata of the whole: all pairs but those of the parts."""
    return ((key, pair) for key, pair in first.pairs.items() if key not in _KEYS)


def _number(header: Header, key: str, default: int) -> int:
    if key not in header.pairs:
        return default
    text = header.pairs[key].text
    if not re.fullmatch(r"\d{1,10}", text):
        raise ValueError(f"{key} is {short(text)}, no count")
    return int(text)
