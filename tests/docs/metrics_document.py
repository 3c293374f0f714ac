"""docs/metrics.md, made from the code: `make metrics-doc` writes it, and a test compares it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import Metric

from bookie.serving.serving_metrics import METRICS as BOOKIE_STATE
from bookie.storage.storage_metrics import METRICS as BOOKIE
from bookie.upkeep.logs.auditor_log_metrics import LOGS
from bookie.upkeep.upkeep_metrics import AUDIT, UPKEEP
from bookledger.admin.health_metrics import METRICS as HEALTH
from bookledger.admin.http.server import METRICS as HTTP
from bookledger.admin.loop_lag import METRICS as EVENT_LOOP
from bookledger.admin.offloader_health import OFFLOADER
from bookledger.admin.process_metrics import process_registry
from ledgers.observing.client_metric_declarations import METRICS as CLIENT
from metadata.counting.facts import FACTS, Fact, Verdict
from metadata.counting.metric_declarations import Declaration, MetricTable
from metadata.counting.store_metrics import METRICS as METADATA
from qjm_compat.acceptor.acceptor_metrics import AcceptorMetrics
from qjm_compat.config import JournalConfig
from qjm_compat.hadoop.pages.beans import METRICS as JOURNAL_NODE
from qjm_compat.manager.channel import Channel
from qjm_compat.manager.logger import LoggerMetrics
from qjm_compat.prometheus import BEANS, PREFIX, snake_case
from qjm_compat.quantiles import PERCENTILES, WINDOWS_SECONDS

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

TABLES = (
    HEALTH,
    BOOKIE,
    BOOKIE_STATE,
    UPKEEP,
    AUDIT,
    LOGS,
    METADATA,
    OFFLOADER,
    EVENT_LOOP,
    HTTP,
    JOURNAL_NODE,
    CLIENT,
)

LABELS_OF_BOOKIES = "bookie"
"""What each metric of a bookie has besides, where a process shows it."""

BEGIN = """\
# Metrics

What daemons show at `/metrics` of their [HTTP port](monitoring.md#metrics-and-health), and clients in a registry that
the application passes. This page is made from the code: `make metrics-doc` writes it, and a test compares it.

- Names begin with `bookledger_`; units are seconds and bytes. A counter rises until its process ends. A histogram has
  the series `…_bucket`, `…_sum` and `…_count`.
- The metrics of a bookie, and of the auditor, the logs and the metadata in it, have the label `bookie` besides, its
  name: `standalone` runs several.
- Work is counted for a frame, a page or a batch at a time, and never for an entry.
- `limit` is named as in `bookledger bookie gc status`. The `state` of a ledger is open, in_recovery or closed, that of
  a fragment is whole, or what its worst copy is. `status` is what the bookie answered.
- Among the outcomes of calls to the metadata, VersionConflict and KeyExists are no failures: somebody else was first.
- The last column names BookKeeper's metric for the same, as its Prometheus provider shows it. BookKeeper's latencies
  are summaries of single entries, in milliseconds; ours are histograms of frames, pages and batches, in seconds.

| process | shows |
|---|---|
| `bookie run`, `standalone` | health, bookie, auditor, logs, metadata, event loop, HTTP port, process |
| `autorecovery` | health, auditor, logs, metadata, event loop, HTTP port, process |
| `offloader` | health, offloader, HTTP port, process |
| `journal serve`, `--journal-http` | health, journal node, journals, metadata, client, event loop, HTTP port, process |
| `console` | event loop, HTTP port, process |
| an application that passes a registry | client |
"""

FACTS_TOLD = """\
## What counts as well

`/readyz`, gRPC's health check, `cluster status`, `/api/v1/cluster` (`facts`), the console, `bookledger_health_fact` and
the alerts draw from this list. Each fact is `well`, `amiss` or `unknown`. The last columns say which verdicts make a
daemon not ready (503), and a cluster not whole (exit code 1). Where something is only unknown, the console and the
API say `counting`.

| fact | what holds while it is well | measured by | how old at most | not ready | not whole | alerts |
|---|---|---|---|---|---|---|"""

COLUMNS = "| metric | type | unit | labels | what it tells | BookKeeper |\n|---|---|---|---|---|---|"

HADOOP = """\
## Journals

Journals have Hadoop's names and units, as Hadoop's own sink for Prometheus makes them of its beans: `hadoop_journal_…`
is what a journal's acceptor counts, `hadoop_ipc_logger_channel_…` what a writer sees of each acceptor. `journal serve`
shows the first; `registry.register(JournalMetrics(manager.metrics))` shows both. All are gauges. The label `name` is
the journal's, or the acceptor's. `<window>` is WINDOWS seconds, `<percentile>` PERCENTILES.

| metric | Hadoop's bean | Hadoop's name |
|---|---|---|"""

PROCESS = """\
## The process

Those of prometheus-client itself, of every daemon.

| metric | type | what it tells |
|---|---|---|"""


def document() -> str:
    """All of it."""
    parts = [BEGIN, _facts(), *(_table(one) for one in TABLES), _hadoop(), _process()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _facts() -> str:
    return "\n".join([FACTS_TOLD, *map(_fact, FACTS)])


def _fact(one: Fact) -> str:
    alerts = ", ".join(one.alerts)
    cells = (
        f"`{one.name}`",
        one.description,
        one.by,
        one.age,
        _verdicts(one.not_ready),
        _verdicts(one.not_whole),
    )
    return re.sub(" +", " ", f"| {' | '.join((*cells, alerts))} |")


def _verdicts(some: frozenset[Verdict]) -> str:
    return ", ".join(one for one in Verdict if one in some)


def _table(table: MetricTable) -> str:
    return "\n".join([f"## {table.title}\n", COLUMNS, *map(_row, table.declared)])


def _row(one: Declaration) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels)
    theirs = " + ".join(f"`{name}`" for name in one.bookkeeper.split(" + ") if name)
    cells = (f"`{one.name}`", one.kind, one.unit, labels, one.description, theirs)
    return re.sub(" +", " ", f"| {' | '.join(cells)} |")


def _hadoop() -> str:
    config = JournalConfig(ensemble_size=1)
    values = {
        "Journal": AcceptorMetrics().snapshot().keys(),
        "IPCLoggerChannel": LoggerMetrics(Channel("a", config)).snapshot().keys(),
    }
    begin = HADOOP.replace("WINDOWS", _listed(WINDOWS_SECONDS)).replace("PERCENTILES", _listed(PERCENTILES))
    rows = [
        f"| `{ours}` | `{bean}-<name>` | `{theirs}` |"
        for bean in values
        for ours, theirs in _named(bean, values[bean])
    ]
    return "\n".join([begin, *dict.fromkeys(rows)])


def _named(bean: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        short = re.sub(r"\d+(?=s)", "<window>", name)
        short = re.sub(r"\d+(?=th)", "<percentile>", short)
        ours = snake_case(name)
        ours = re.sub(r"\d+(?=s)", "<window>", ours)
        ours = re.sub(r"\d+(?=th)", "<percentile>", ours)
        yield f"{PREFIX}_{BEANS[bean]}_{ours}", short


def _listed(numbers: Iterable[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}"


def _process() -> str:
    return "\n".join([PROCESS, *map(_of_process, process_registry().collect())])


def _of_process(metric: Metric) -> str:
    suffix = "_total" if metric.type == "counter" else ""
    return f"| `{metric.name}{suffix}` | {metric.type} | {metric.documentation.rstrip('.')}. |"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
