"""Line charts as SVG, with logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 620, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 48


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y) in order of x. `kind`: their CSS class."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line at one value."""

    name: str
    kind: str
    value: float


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis from one power of ten to a higher one, spanning a number of pixels."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> Scale:
        """Returns an axis that fits all values above 0."""
        found = [value for value in values if value > 0] or [1.0]
        low = math.floor(math.log10(min(found)))
        return cls(low, max(math.ceil(math.log10(max(found))), low + 1), start, end)

    def at(self, value: float) -> float:
        """Returns the position of a value; values of 0 or less are placed at the start of the axis."""
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def chart(title: str, x_title: str, y_title: str, lines: Sequence[Line], rules: Sequence[Rule]) -> str:
    """Returns the chart as one SVG element. Raises ValueError if there are no points."""
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError(f"there is nothing to draw for {title}")
    x = Scale.over([one for one, _ in points], LEFT, WIDTH - RIGHT)
    y = Scale.over([*(one for _, one in points), *(rule.value for rule in rules)], HEIGHT - BOTTOM, TOP)
    return "\n".join(
        [
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label={_quoted(title)}>',
            *_axes(x, y, x_title, y_title),
            *(part for rule in rules for part in _rule(rule, y)),
            *(part for line in lines for part in _line(line, x, y)),
            "</svg>",
        ]
    )


def _axes(x: Scale, y: Scale, x_title: str, y_title: str) -> Iterator[str]:
    for tick in x.ticks():
        yield f'<line class="grid" x1="{x.at(tick):.1f}" y1="{TOP}" x2="{x.at(tick):.1f}" y2="{HEIGHT - BOTTOM}"/>'
        yield _text(x.at(tick), HEIGHT - BOTTOM + 18, f"{tick:,.10g}", "middle")
    for tick in y.ticks():
        yield f'<line class="grid" x1="{LEFT}" y1="{y.at(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y.at(tick):.1f}"/>'
        yield _text(LEFT - 8, y.at(tick) + 4, f"{tick:,.10g}", "end")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_title, "middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<g transform="translate(14 {middle:.0f}) rotate(-90)">{_text(0, 0, y_title, "middle")}</g>'


def _rule(rule: Rule, y: Scale) -> Iterator[str]:
    at = y.at(rule.value)
    yield f'<line class="rule {rule.kind}" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>'
    yield _text(WIDTH - RIGHT - 4, at - 5, rule.name, "end")


def _line(line: Line, x: Scale, y: Scale) -> Iterator[str]:
    places = [(x.at(one), y.at(other)) for one, other in line.points]
    drawn = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
    yield f'<polyline class="line {line.kind}" points="{drawn}"/>'
    for (left, top), (one, other) in zip(places, line.points, strict=True):
        title = escape(f"{line.name}: {other:g} at {one:g}")
        yield f'<circle class="dot {line.kind}" cx="{left:.1f}" cy="{top:.1f}" r="4"><title>{title}</title></circle>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _quoted(text: str) -> str:
    return f'"{escape(text, {chr(34): "&quot;"})}"'
