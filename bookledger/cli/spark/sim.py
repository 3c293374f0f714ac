"""`bookledger sim`: runs the simulator's campaign as Spark tasks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ledgers.errors import LedgerError
from spark.campaign.seeds import SEED_SECONDS_MAX, layer_named

from ..messages.help import command
from ..options import Finite, json_option
from ..output import print_record
from ..terminal import say
from .errors import in_one_line
from .options import master_given, settings, tasks_bar
from .output import NewOutput
from .spark_job import OnSpark, run_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.campaign.simulate import Campaign

LAYERS = {
    name: f"tests.simulation.{name}.layer:LAYER"
    for name in ("cores", "upkeep", "journals", "cluster", "logs")
}
"""The simulator is in the repository, next to the tests; it is shipped to the executors."""

RANDOM_FIRST_SEED_MAX = 10**9
FIRST_SEED_MAX = 2**62
SEEDS_A_TASK_DEFAULT = 300
SEEDS_A_TASK_MAX = 100_000
TASKS_MAX = 100_000
"""Maximum number of tasks that Spark's driver can track in one job."""

FAILURES_SHOWN_MAX = 10


@command(
    headings={
        "Campaign": ("--layer", "--seeds", "--first-seed", "--seed-seconds", "--seeds-a-task"),
        "Spark": ("--spark", "--conf"),
    }
)
@click.option(
    "--spark",
    "master",
    default="local[*]",
    show_default=True,
    callback=master_given,
    metavar="MASTER",
    help="Spark master.",
)
@click.option("--seeds", default=10_000, show_default=True, type=click.IntRange(1), help="Number of seeds.")
@click.option("--first-seed", type=click.IntRange(0, FIRST_SEED_MAX), help="First seed  [default: random]")
@click.option("--layer", default="cores", show_default=True, type=click.Choice(list(LAYERS)))
@click.option(
    "--seeds-a-task",
    default=SEEDS_A_TASK_DEFAULT,
    show_default=True,
    type=click.IntRange(1, SEEDS_A_TASK_MAX),
)
@click.option(
    "--seed-seconds",
    default=SEED_SECONDS_MAX,
    show_default=True,
    type=Finite(0, min_open=True),
    help="Seconds after which a seed has failed.",
)
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="Spark setting; may be given several times.")
@click.option("--output", required=True, metavar="DIR", help="New directory for the outcomes, as Parquet.")
@json_option
def sim(
    master: str,
    seeds: int,
    first_seed: int | None,
    layer: str,
    seeds_a_task: int,
    seed_seconds: float,
    conf: tuple[str, ...],
    output: str,
    as_json: bool,
) -> None:
    """Run the simulator's campaign as Spark tasks; exit code 1 if a seed broke a promise.

    Examples:
        bookledger sim --seeds 1000 --output outcomes
        bookledger sim --layer cluster --first-seed 42 --seeds 10 --output again
    """
    if seeds > seeds_a_task * TASKS_MAX:
        raise click.UsageError(
            f"--seeds {seeds}, {seeds_a_task} per task, need more than {TASKS_MAX} tasks: use fewer seeds, "
            "or raise --seeds-a-task"
        )
    first = secrets.randbelow(RANDOM_FIRST_SEED_MAX) if first_seed is None else first_seed
    where = OnSpark(master, "bookledger sim", settings(conf), extra_packages=("tests",))
    found = _run(where, layer, (first, seeds, seeds_a_task, seed_seconds), output)
    for seed, why in found.shown:
        say(f"seed {seed}: {why}", err=True)
        say(f"  repeat it with: make sim LAYER={layer} SEED={seed}", err=True)
    for probe in found.unreached:
        say(f"never reached: {probe}", err=True)
    print_record(
        {
            "layer": layer,
            "first_seed": first,
            "seeds": found.seeds,
            "violations": found.violations,
            "seconds": round(found.seconds, 1),
            "seeds_per_second": round(found.seeds / found.seconds, 1),
            "output": output,
        },
        as_json=as_json,
    )
    _judge(found, seeds, output)


@dataclass(frozen=True, slots=True)
class _SeedFindings:
    """The outcomes: first failures, counts, and rare paths never reached; the seconds exclude Spark's startup."""

    shown: list[tuple[int, str]]
    violations: int
    seeds: int
    unreached: list[str]
    seconds: float


def _judge(found: _SeedFindings, seeds: int, output: str) -> None:
    """Raises LedgerError unless every seed passed."""
    if found.violations or found.seeds != seeds:
        raise LedgerError(
            f"{found.violations} of {found.seeds} seeds violated a guarantee; all outcomes are in {output}"
        )
    if found.unreached:
        raise LedgerError(
            f"{len(found.unreached)} rare paths were never reached; all outcomes are in {output}"
        )


def _run(where: OnSpark, layer: str, numbers: tuple[int, int, int, float], output: str) -> _SeedFindings:
    layer_named(LAYERS[layer])  # a failed import raises before Spark has started
    new = NewOutput(output)

    def work(session: SparkSession) -> _SeedFindings:
        from spark.campaign.simulate import Campaign, outcomes
        from spark.parquet_replay import task_progress

        place = new.claim(session)
        campaign = Campaign(LAYERS[layer], *numbers)
        began = time.monotonic()
        with task_progress(session, progress), _seeds_lost_named(campaign):
            outcomes(session, campaign).write.parquet(place)
        found = _found(session, campaign, place, time.monotonic() - began)
        new.complete()
        return found

    with new.tidied_up(), tasks_bar() as progress:
        return run_on_spark(where, work)


@contextmanager
def _seeds_lost_named(campaign: Campaign) -> Iterator[None]:
    """Reports which seeds were lost when their task failed: a seed cannot make its task fail, but other causes can."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from spark.campaign.simulate import seeds_lost

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lost = seeds_lost(campaign, str(error))
        if lost is None:
            raise
        raise LedgerError(
            f"seeds {lost[0]} to {lost[-1]} were lost with their task: {in_one_line(error)}"
        ) from error


def _found(session: SparkSession, campaign: Campaign, output: str, seconds: float) -> _SeedFindings:
    from spark.campaign.simulate import never_reached

    rows = session.read.parquet(output)
    broken = rows.where("violation is not null").orderBy("seed")
    shown = [(row["seed"], row["violation"]) for row in broken.limit(FAILURES_SHOWN_MAX).collect()]
    return _SeedFindings(shown, broken.count(), rows.count(), never_reached(rows, campaign), seconds)
