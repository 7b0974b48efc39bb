"""From a kernel to a cubin, without a GPU; and from a cubin to a launch, through CuPy.

    compile   Numba makes PTX of the Python function for an architecture; the entry gets a stable
              name; cuda.core links it to a cubin, whose log has registers and spills
    cache     <sha256 of what the cubin is made of>.cubin, written beside and renamed; an index from
              (kernel, sources, versions, signature, options) to it spares compiling
    launch    CuPy loads the file and launches; arguments are pointers and exact integers

CUDA 13 compiles for compute capability 7.5 and up, CUDA 12 for 5.0 and up.

Source: documentation of numba-cuda 0.30 (compile_ptx) and cuda.core 1.2 (Linker); CUDA 13.0 release notes.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from feather_kernels import _target, driver

PACKAGES = ("numba-cuda", "numba", "cuda-core", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvvm-cu12")
KINDS = {"u8*": "uint8", "u16*": "uint16", "u32*": "uint32", "f32*": "float32"}
EVERYBODY_KNOWS = (9, 0)
_NOTHING = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n"
_ELEMENT = {8: "u8*", 16: "u16*", 32: "u32*"}


def element(bits: int) -> str:
    """The kind of a pointer to elements of so many bits; words for any other width."""
    return _ELEMENT.get(bits, "u32*")


@dataclass(frozen=True)
class Cubin:
    """A compiled kernel: where it lies, its entry, and what the assembler said."""

    path: Path
    entry: str
    arch: str
    registers: int
    spills: int
    stack: int
    shared: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class Job:
    """What to compile: a kernel with a name, the kinds of its arguments, and options for the assembler.

    arguments: of KINDS for pointers, "i64" for integers.
    """

    name: str
    make: Callable[[], Any] = field(compare=False)  # key stands for it
    arguments: tuple[str, ...]
    key: str  # all that the kernel depends on besides the sources
    max_registers: int | None = None
    overlap: bool = False  # it is launched so that it may begin early: see `feather_kernels.overlap`


class ToolkitError(RuntimeError):
    """The compiler is missing, or cannot do what is asked."""


class UnknownArchError(ToolkitError):
    """The architecture is newer than the toolkit."""


def parse_arch(arch: str | int) -> tuple[int, int]:
    """The compute capability of an architecture.

    >>> parse_arch("sm_90"), parse_arch(120), parse_arch("7.5")
    ((9, 0), (12, 0), (7, 5))
    """
    digits = str(arch).lower().removeprefix("sm_").replace(".", "")
    if not re.fullmatch(r"\d{2,3}", digits):
        raise ValueError(f"arch: {arch!r} is no architecture; say sm_90, 90 or 9.0")
    return int(digits[:-1]), int(digits[-1])


def compile_job(job: Job, arch: str | int, folder: Path | None = None, portable: bool = False) -> Cubin:
    """The cubin of a kernel, from the cache or made now; portable: its PTX, which newer GPUs take, and no facts.

    Raises ToolkitError in one sentence where the toolkit is missing or too new for the architecture.
    """
    cc = parse_arch(arch)
    base = folder or Path(_target.cache_folder())
    kind = "ptx" if portable else "cubin"
    key = _digest(job.name, job.key, repr(job.arguments), repr(cc), repr(job.max_registers), environment(), kind)
    index = base / f"{key}.txt"
    known = _read_index(index, base)
    if known is not None:
        return known
    ptx, entry = _ptx(job, cc)
    code, log = (ptx.encode(), None) if portable else _link(ptx, cc, job.max_registers)
    name = f"{_digest(ptx, repr(cc), environment(), repr(job.max_registers))}.{kind}"
    _write(base / name, code)
    facts = (0, 0, 0, 0) if log is None else _facts(log)
    cubin = Cubin(base / name, entry, f"sm_{cc[0]}{cc[1]}", *facts)
    _write(index, " ".join([name, entry, cubin.arch, *map(str, facts)]).encode())
    return cubin


# --- the cache --------------------------------------------------------------------------------


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def environment() -> str:
    """Every version and every source that a cubin depends on."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return "\n".join([*found, *(_digest(source.read_text(encoding="utf-8")) for source in sources)])


def _read_index(index: Path, base: Path) -> Cubin | None:
    try:
        name, entry, arch, *facts = index.read_text(encoding="ascii").split()
    except OSError:
        return None
    path = base / name
    return Cubin(path, entry, arch, *map(int, facts)) if path.is_file() else None


def _write(path: Path, data: bytes) -> None:
    """Write beside and rename: whoever reads sees nothing or all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


# --- Numba and the linker ---------------------------------------------------------------------


def _signature(arguments: Iterable[str]) -> Any:
    from numba.cuda import types

    kinds = {kind: types.CPointer(getattr(types, name)) for kind, name in KINDS.items()} | {"i64": types.int64}
    return types.void(*(kinds[argument] for argument in arguments))


def _ptx(job: Job, cc: tuple[int, int]) -> tuple[str, str]:
    """PTX whose entry has the job's name."""
    if _target.SIMULATOR:
        raise ToolkitError("kernels were loaded for the simulator: set FEATHER_TARGET=gpu to compile them")
    try:
        with _uncollected():
            ptx, _ = _target.cuda.compile_ptx(job.make().py_func, _signature(job.arguments), cc=cc)
    except Exception as error:
        if type(error).__name__ != "CCSupportError":
            raise
        raise ToolkitError(
            f"this CUDA toolkit does not compile for compute capability {cc[0]}.{cc[1]}: "
            "7.5 and up need feather-ref[cuda13], 5.0 to 7.2 feather-ref[cuda12]"
        ) from error
    mangled = re.search(r"\.entry\s+(\w+)", ptx)
    if mangled is None:
        raise ToolkitError(f"Numba made no entry of {job.name}")
    entry = "feather_" + re.sub(r"\W+", "_", job.name)
    if cc < (7, 0):  # they have no hint to keep a load out of L1
        ptx = ptx.replace(".L1::no_allocate", "")
    # The mangled name holds a counter of this process; the cache needs a stable text.
    stable = ptx.replace(mangled[1], entry)
    tag = re.search(r"_3clocals_3e\w+?B\w+?v(\d+)", stable)
    return (stable.replace(tag[0], "_local") if tag else stable), entry


@contextmanager
def _uncollected() -> Iterator[None]:
    """Numba makes many objects and drops few of them: to look for those takes a fifth of the time of a compile."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@cache
def links(cc: tuple[int, int]) -> bool:
    """Whether the toolkit makes cubins for a compute capability; where it does not, the driver may compile PTX.

    Every toolkit of CUDA 12 and 13 knows those up to 9.0, so that the linker is asked of newer ones alone.
    """
    if cc <= EVERYBODY_KNOWS:
        return True
    try:
        _link(_NOTHING, cc, None)
    except UnknownArchError:
        return False
    return True


def _link(ptx: str, cc: tuple[int, int], max_registers: int | None) -> tuple[bytes, str]:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    options = LinkerOptions(  # from the linker's own cache a cubin comes without a log
        arch=f"sm_{cc[0]}{cc[1]}", ptxas_options=["-v"], max_register_count=max_registers, no_cache=True
    )
    try:
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
        code = linker.link("cubin").code
    except Exception as error:
        if "UNRECOGNIZED_ARCH" not in str(error):
            raise
        raise UnknownArchError(
            f"this CUDA toolkit does not know compute capability {cc[0]}.{cc[1]}: install a newer one"
        ) from error
    return bytes(code), linker.get_info_log()


def _facts(log: str) -> tuple[int, int, int, int]:
    """Registers, bytes spilled, bytes of stack, bytes of shared memory, from the assembler's log.

    Raises ToolkitError for a log without them: nothing is known then, least of all that nothing spills.
    """
    if re.search(r"Used \d+ registers", log) is None:
        raise ToolkitError(f"the linker's log does not say how many registers are used: {log.strip()!r}")

    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, log)))

    spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    return number(r"Used (\d+) registers"), spilled, number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem")


# --- CuPy -------------------------------------------------------------------------------------


@cache
def load(cubin: Cubin, device: int) -> Any:
    """The kernel, loaded on a device: a CuPy function(grid, block, arguments, shared_mem, stream).

    Raises GpuError where the driver does not take the file.
    """
    cupy = driver.cupy()
    with cupy.cuda.Device(device):
        try:
            return cupy.RawModule(path=str(cubin.path)).get_function(cubin.entry).kernel
        except cupy.cuda.driver.CUDADriverError as error:
            raise driver.GpuError(
                f"the driver does not load {cubin.path}, made for {cubin.arch}: {error}; "
                "delete it, and it is made again, or update the driver"
            ) from error
