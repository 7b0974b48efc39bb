"""The pictures of the tutorials as readers see them, to be looked at: make shots.

For every notebook build/shots/<name>.png, a row for each picture::

    light | dark | as with deuteranopia | 375 pixels wide

Deuteranopia, the commonest colour blindness, is simulated by a matrix on linear RGB.  What was seen
and mended stands in tutorials/REVIEW.md.

Source: Machado, Oliveira, Fernandes, A Physiologically-based Model for Simulation of Color Vision
Deficiency, 2009, severity 1.0; IEC 61966-2-1 for sRGB.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Iterator
from typing import Any
from unittest import mock

import click
import numpy as np
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.image import imread, imsave
from numpy.typing import NDArray

import notebooks
from feather_ref import draw

FOLDER = notebooks.ROOT / "build" / "shots"
PICTURES = ("bit_fields", "word", "number_line", "rounding_regions")  # of `draw`; each has a dark side
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
WIDE, NARROW = 600, 375  # pixels
GAP = 12
GREY = 0.5  # between the pictures, so that light and dark paper both have an edge

Image = NDArray[np.float32]


@contextlib.contextmanager
def dark_paper() -> Iterator[None]:
    """Make every picture dark."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(style.context("dark_background"))
        for name in PICTURES:
            stack.enter_context(mock.patch.object(draw, name, functools.partial(getattr(draw, name), dark=True)))
        yield


def figures(notebook: Any) -> list[Figure]:
    """The pictures of a notebook, in order; what it prints is left out."""
    shown: list[Figure] = []
    with contextlib.redirect_stdout(io.StringIO()):
        notebooks.execute(notebook, show=lambda value: shown.append(value) if isinstance(value, Figure) else None)
    return shown


def pixels(figure: Figure, width: int) -> Image:
    """A picture as (height, width, 3) from 0 to 1."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=width / figure.get_figwidth())
    data.seek(0)
    return np.asarray(imread(data)[..., :3], np.float32)


def as_deuteranope(image: Image) -> Image:
    """The same picture without the cones for green.

    >>> grey = np.full((1, 1, 3), 0.5, np.float32)
    >>> bool(np.allclose(as_deuteranope(grey), grey, atol=1e-4))
    True
    """
    linear = np.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ DEUTERANOPIA.T, 0, 1)
    return np.where(seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055).astype(np.float32)


def stack(images: list[Image], axis: int) -> Image:
    """Pictures side by side (axis 1) or one below the other (axis 0), with grey around."""
    across = 1 - axis
    size = max(image.shape[across] for image in images)
    padded = []
    for image in images:
        margins = [(GAP, GAP)] * 2 + [(0, 0)]
        margins[across] = (GAP, GAP + size - image.shape[across])
        padded.append(np.pad(image, margins, constant_values=GREY))
    return np.concatenate(padded, axis)


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Draw the pictures of all notebooks, or of those whose name begins with NAMES."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for source in notebooks.sources():
        if names and not source.name.startswith(names):
            continue
        notebook = notebooks.read(source)
        light = figures(notebook)
        with dark_paper():
            dark = figures(notebook)
        rows = [
            [pixels(a, WIDE), pixels(b, WIDE), as_deuteranope(pixels(a, WIDE)), pixels(a, NARROW)]
            for a, b in zip(light, dark, strict=True)
        ]
        path = FOLDER / f"{source.stem}.png"
        if rows:
            imsave(path, stack([stack(row, 1) for row in rows], 0))
        print(f"{path.relative_to(notebooks.ROOT)}: {len(rows)} pictures")


if __name__ == "__main__":
    main()
