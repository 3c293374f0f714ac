"""Draws a benchmark as one HTML file without scripts or external resources; light or dark depending on the reader's
preference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape

from ..messages.sizes import format_bytes
from .baseline import Baseline
from .charts import Line, Rule, chart
from .picture import picture_of
from .workloads import WorkloadResult


@dataclass(frozen=True, slots=True)
class BenchRun:
    """Results of one run. `sweep`: results for the same entries with increasing numbers in flight; `single`: results
    for entry-sized blocks on plain sockets, one in flight. Both are present only if requested."""

    results: list[WorkloadResult]
    sweep: list[WorkloadResult]
    single: Baseline | None = None


POLICY = "default-src 'none'; style-src 'unsafe-inline'"

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --dim: #566073; --line: #dfe3ea;
  --mb: #2f6fb5; --p50: #1f7a45; --p99: #b3501f }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ef; --paper: #12161d; --dim: #9aa5b8; --line: #2c3542;
  --mb: #6aa8e6; --p50: #6fd49a; --p99: #f09060 } }
body { margin: 0 auto; max-width: 1320px; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0 } h2 { font-size: 1.05rem; margin: 1.5rem 0 .3rem }
p { margin: .2rem 0; color: var(--dim) }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 0 2rem }
svg { width: 100%; height: auto }
.chart text { font: 12px system-ui, sans-serif; fill: var(--dim) }
.chart .grid { stroke: var(--line) } .chart .rule { stroke-width: 1.5; stroke-dasharray: 5 4 }
.chart .line { fill: none; stroke-width: 2 }
.chart .mb { stroke: var(--mb) } .chart .p50 { stroke: var(--p50) } .chart .p99 { stroke: var(--p99) }
.chart .dot { fill: var(--paper); stroke-width: 2 }
.key { display: inline-block; width: 1.4rem; border-top: 3px solid; margin: 0 .3rem .25rem 0 }
.key.k50 { border-color: var(--p50) } .key.k99 { border-color: var(--p99) }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 14px }
th, td { padding: .3rem .8rem; border-top: 1px solid var(--line); text-align: right; white-space: nowrap }
th:first-child { text-align: left } thead th { color: var(--dim); font-weight: 500; border: 0 }
"""


def page_of(run: BenchRun, subtitle: str) -> str:
    """Returns the page. `subtitle`: a line with the date and the machine. Raises ValueError for a run without a
    sweep."""
    if not run.sweep or run.single is None:
        raise ValueError("there are no measurements with increasing numbers of entries in flight")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>bookledger bench</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>bookledger bench</h1>\n<p>{escape(subtitle)}; three bookies, ack quorum 2, one writer</p>",
            '<div class="pair">',
            *_throughput(run.sweep),
            *_latency(run.sweep, run.single),
            "</div>",
            "<h2>All workloads</h2>",
            picture_of(run.results, subtitle).rstrip(),
            "<h2>In numbers</h2>",
            *_table([*run.sweep, *run.results]),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _throughput(sweep: Sequence[WorkloadResult]) -> Iterator[str]:
    baseline = Rule(f"baseline {sweep[0].baseline_mb_per_s:,.0f} MB/s", "mb", sweep[0].baseline_mb_per_s)
    line = Line("MB/s", "mb", [(one.in_flight, one.mb_per_s) for one in sweep])
    yield "<section><h2>Throughput against entries in flight</h2>"
    yield f"<p>Entries of {format_bytes(sweep[0].entry_bytes)}. The baseline is the throughput of plain sockets with"
    yield "<code>fdatasync</code> for blocks of 1 MiB in the same run.</p>"
    yield chart("Throughput against entries in flight", "entries in flight", "MB/s", [line], [baseline])
    yield "</section>"


def _latency(sweep: Sequence[WorkloadResult], single: Baseline) -> Iterator[str]:
    lines = [
        Line("p50, ms", "p50", [(one.in_flight, one.p50_ms) for one in sweep]),
        Line("p99, ms", "p99", [(one.in_flight, one.p99_ms) for one in sweep]),
    ]
    rules = [
        Rule(f"baseline p50 {single.p50_ms:.2f} ms", "p50", single.p50_ms),
        Rule(f"baseline p99 {single.p99_ms:.2f} ms", "p99", single.p99_ms),
    ]
    yield "<section><h2>Latency against entries in flight</h2>"
    yield '<p><span class="key k50"></span>p50 <span class="key k99"></span>p99, from the append to its confirmation.'
    yield "The baseline is one entry-sized block at a time, on all three disks.</p>"
    yield chart("Latency against entries in flight", "entries in flight", "ms", lines, rules)
    yield "</section>"


def _table(results: Sequence[WorkloadResult]) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{one.name.replace("_", " ")}</th>' for one in fields(WorkloadResult))
    yield '<div class="scroll" tabindex="0" role="region" aria-label="All measurements"><table>'
    yield f"<thead><tr>{heads}</tr></thead>"
    for result in results:
        name, *values = asdict(result).values()
        cells = "".join(f"<td>{value:,}</td>" for value in values)
        yield f'<tr><th scope="row">{escape(str(name))}</th>{cells}</tr>'
    yield "</table></div>"
