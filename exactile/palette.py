"""Colours of fused groups: six that colour-blind readers tell apart, then the same with stripes."""

from __future__ import annotations

from dataclasses import dataclass

# Okabe and Ito, "Color Universal Design" (2008), without black and yellow, which make poor lines on white
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
DARK, LIGHT = "#1a1a1a", "#ffffff"
ANGLES = (45, 135, 90, 0)
TINT = 0.78


@dataclass(frozen=True, slots=True)
class Paint:
    """How a group looks: the line colour, a tint for surfaces, text on the colour, and stripes' angle."""

    colour: str
    tint: str
    text: str
    stripes: int | None


def paint(number: int) -> Paint:
    """The look of group `number`, counted from 1; looks repeat after thirty groups."""
    round_, at = divmod(number - 1, len(COLOURS))
    colour = COLOURS[at]
    red, green, blue = _channels(colour)
    text = DARK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else LIGHT
    angle = ANGLES[(round_ - 1) % len(ANGLES)] if round_ else None
    return Paint(colour, _tint(colour), text, angle)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _tint(colour: str) -> str:
    """The colour mixed with white."""
    return "#" + "".join(f"{round(c + (255 - c) * TINT):02x}" for c in _channels(colour))
