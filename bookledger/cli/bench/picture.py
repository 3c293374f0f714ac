"""Draws benchmark results as SVG: throughput compared with the baseline, and latency percentiles.

The SVG file has no scripts or embedded fonts, and is light or dark depending on the viewer's preference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ..messages.sizes import format_bytes
from .charts import Scale
from .workloads import WorkloadResult

ROW, TOP = 34, 92
NAMES, BARS, GAP, DOTS, EDGE = 250, 300, 60, 300, 90
WIDTH = NAMES + BARS + GAP + DOTS + EDGE

STYLE = """
  svg { font: 13px sans-serif; background: #fff; fill: #222 }
  .title { font-size: 17px } .small { font-size: 11px; fill: #666 }
  .bar { fill: #3a6ea5 } .p50 { fill: #2a8a4a } .p99 { fill: #c05020 }
  .rule { stroke: #999; stroke-dasharray: 3 3 } .span { stroke: #999 }
  @media (prefers-color-scheme: dark) {
    svg { background: #181a1b; fill: #ddd } .small { fill: #999 } .bar { fill: #6a9ed5 }
    .p50 { fill: #5ac07a } .p99 { fill: #f09060 }
  }
"""


def picture_of(results: Sequence[WorkloadResult], subtitle: str) -> str:
    """Returns the SVG. `subtitle`: a line with the date and the machine. Raises ValueError if there are no results."""
    if not results:
        raise ValueError("nothing was measured")
    height = TOP + ROW * len(results) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">',
        '<title id="title">bookledger bench: throughput and latency of each workload</title>',
        f"<style>{STYLE}</style>",
        _text(16, 28, "bookledger bench", "title"),
        _text(16, 46, subtitle, "small"),
        *_bars(results, height),
        *_dots(results, height),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bars(results: Sequence[WorkloadResult], height: int) -> Iterator[str]:
    """Draws megabytes per second as bars, and the baseline of plain sockets and `fdatasync` as a line."""
    baseline = results[0].baseline_mb_per_s
    most = max(baseline, *(result.mb_per_s for result in results)) or 1.0
    yield _text(NAMES, TOP - 14, "MB/s; entries/s beside it", "small")
    for n, result in enumerate(results):
        y = TOP + ROW * n
        length = BARS * result.mb_per_s / most
        in_flight = f"{format_bytes(result.entry_bytes)}, {result.in_flight} in flight"
        yield _text(16, y + 13, result.workload)
        yield _text(16, y + 26, in_flight, "small")
        yield f'<rect class="bar" x="{NAMES}" y="{y + 3}" width="{length:.1f}" height="14"/>'
        yield _text(NAMES, y + 28, f"{result.mb_per_s:.1f} MB/s, {result.adds_per_s:,.0f}/s", "small")
    x = NAMES + BARS * baseline / most
    yield f'<line class="rule" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 24}"/>'
    yield _text(x - 60, height - 8, f"baseline: {baseline:.0f} MB/s", "small")


def _dots(results: Sequence[WorkloadResult], height: int) -> Iterator[str]:
    """Draws p50 and p99 on a logarithmic scale, with a rule at each power of ten."""
    left = NAMES + BARS + GAP
    scale = Scale.over(
        [value for result in results for value in (result.p50_ms, result.p99_ms)], left, left + DOTS
    )
    yield _text(left, TOP - 32, "latency: p50 (green) and p99 (orange), ms", "small")
    for tick in scale.ticks():
        x = scale.at(tick)
        yield f'<line class="rule" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 24}"/>'
        yield _text(x - 6, TOP - 14, f"{tick:g}", "small")
    for n, result in enumerate(results):
        y = TOP + ROW * n + 10
        p50, p99 = scale.at(result.p50_ms), scale.at(result.p99_ms)
        yield f'<line class="span" x1="{p50:.1f}" y1="{y}" x2="{p99:.1f}" y2="{y}"/>'
        yield f'<circle class="p50" cx="{p50:.1f}" cy="{y}" r="5"><title>p50 {result.p50_ms:g} ms</title></circle>'
        yield f'<circle class="p99" cx="{p99:.1f}" cy="{y}" r="5"><title>p99 {result.p99_ms:g} ms</title></circle>'
        yield _text(left, y + 18, f"{result.p50_ms:g} / {result.p99_ms:g} ms", "small")


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y}"{of_kind}>{escape(text)}</text>'
