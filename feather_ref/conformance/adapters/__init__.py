"""Adapters: how to ask a library what a vector's id asks.

An adapter says what its library can, and where it is known to go wrong::

    policies    (op, format) -> the middle of ids, as {"rne.nonsat", "rne.nonsat.nan=preserve_sign"}
    make        a question -> a function of arrays
    expected    ids that fail, why, and in which classes of failures

`--impl module:object` takes an `Adapter` of your own, or a function that makes one.

Source: design of this project.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

from feather_ref import golden
from feather_ref.formats import FORMATS
from feather_ref.golden import Question
from feather_ref.profiles import PROFILES

Function = Callable[..., Any]
Abilities = Mapping[tuple[str, str], frozenset[str]]

SHORT = {name: token for token, name in golden.TOKENS.items()}


@dataclass(frozen=True)
class Expected:
    """Ids that fail, by patterns; the reason; and the classes that it explains."""

    patterns: tuple[str, ...]
    reason: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Adapter:
    """A library as the judge sees it.

    versions: of everything that decides its results.  sources: of conversions; values: what codes
    decode to.  policies: see the module.  make: a question that it can answer -> a function of the inputs of a `Batch`.
    """

    name: str
    versions: Mapping[str, str]
    sources: tuple[str, ...]
    policies: Abilities
    make: Callable[[Question], Function]
    expected: tuple[Expected, ...] = ()
    values: tuple[str, ...] = ("fp32",)

    def can(self, vector_id: str) -> bool:
        """Whether the library has what an id asks."""
        op, source, target, *middle, _ = vector_id.split(".")
        if op == "convert" and golden.TOKENS.get(source, source) not in self.sources:
            return False
        if op == "decode" and golden.TOKENS.get(target, target) not in self.values:
            return False
        fmt = source if op == "decode" else target
        known = self.policies.get((op, golden.TOKENS.get(fmt, fmt)), frozenset())
        return ".".join(middle) in known

    def expects(self, vector_id: str) -> Expected | None:
        """The failure that is known for an id."""
        for known in self.expected:
            if any(fnmatchcase(vector_id, pattern) for pattern in known.patterns):
                return known
        return None


def from_profile(profile: str, formats: Iterable[str]) -> dict[tuple[str, str], frozenset[str]]:
    """What a profile says of conversions to some formats, as middles of ids: with and without its choices.

    >>> sorted(from_profile("ml_dtypes", ["e4m3"])["convert", "e4m3"])
    ['rne.nonsat', 'rne.nonsat.nan=preserve_sign']
    """
    found = {}
    for name in formats:
        chosen = dict(PROFILES[profile].choices[name])
        start = f"{SHORT[chosen.pop('rounding', 'nearest_even')]}.{SHORT[chosen.pop('overflow')]}"
        known = {key: value for key, value in chosen.items() if value in golden.CHOICES[key]}
        said = [f"{key}={known[key]}" for key in golden.CHOICES if key in known]
        found["convert", name] = frozenset({start, ".".join([start, *said])})
    return found


def decodes(formats: Iterable[str]) -> dict[tuple[str, str], frozenset[str]]:
    """The decode tables of some formats."""
    return {("decode", name): frozenset({"exact.none"}) for name in formats}


KNOWN = {name: f"feather_ref.conformance.adapters.{name}:adapter" for name in ("gfloat", "ml_dtypes", "numpy", "torch")}
"""The adapters that are here, as module:object."""


def own_module(name: str) -> ModuleType:
    """A module by its name.

    Raises ImportError, which asks for its folder where there is no such module.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:  # one that it imports
            raise
        raise ImportError(f"{error}; is its folder on PYTHONPATH?") from error


def _takes_arguments(function: object) -> bool:
    """Whether an object cannot be called without one, or not at all."""
    try:
        inspect.signature(function).bind()  # type: ignore[arg-type]  # a TypeError, too
    except (TypeError, ValueError) as error:
        return isinstance(error, TypeError)  # ValueError: one of C that does not say
    return False


def load(name: str) -> Adapter:
    """An adapter by its name, or by module:object.

    Raises ValueError where it cannot be had.
    """
    module, colon, attribute = KNOWN.get(name, name).partition(":")
    if not colon:
        raise ValueError(f"impl must be one of {', '.join(KNOWN)}, or module:object; got {name!r}")
    try:
        found = getattr(own_module(module), attribute)
        made = found if isinstance(found, Adapter) or _takes_arguments(found) else found()
    except ImportError as error:
        raise ValueError(f"impl={name!r}: {error}") from error
    except AttributeError as error:
        raise ValueError(f"impl={name!r}: module {module!r} has no {attribute!r}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ValueError(f"impl={name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(made, Adapter):
        alone = f"; for a converter alone: conformance.check({attribute}, 'e4m3')"
        own = alone if made is found and callable(found) else ""
        what = "an Adapter, or a function without arguments that makes one"
        raise TypeError(f"impl={name!r}: {attribute} must be {what}, got {type(made).__name__}{own}")
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in made.versions.items()):
        raise TypeError(f"impl={name!r}: versions must be names and texts, got {dict(made.versions)!r}")
    for op, fmt in made.policies:
        if op not in golden.OPERATIONS or (fmt not in FORMATS and not fmt.startswith("binary")):
            raise ValueError(f"impl={name!r}: policies: unknown {(op, fmt)!r}")
    return made
