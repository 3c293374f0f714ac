"""The simulator's campaign as Spark tasks: hundreds of seeds a task, outcomes in Parquet.

A layer of the simulator is named `MODULE:ATTRIBUTE`, and is anything with `run(seed, tracing)` that returns an
outcome with `probes`, or raises. Executors import it by that name.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

SCHEMA = "seed bigint, violation string, seconds double, probes array<string>"
SEEDS_A_TASK_DEFAULT = 300


@dataclass(frozen=True, slots=True)
class Campaign:
    """Seeds `first_seed` … of one layer."""

    layer: str
    first_seed: int
    seeds: int
    seeds_a_task: int = SEEDS_A_TASK_DEFAULT


def outcomes(session: SparkSession, campaign: Campaign) -> DataFrame:
    """One row for each seed: its violation, or null; how long it took; the rare paths it took."""
    tasks = max(1, -(-campaign.seeds // campaign.seeds_a_task))
    seeds = session.sparkContext.range(
        campaign.first_seed, campaign.first_seed + campaign.seeds, numSlices=tasks
    )
    layer = campaign.layer
    return session.createDataFrame(seeds.mapPartitions(lambda part: run_seeds(layer, part)), SCHEMA)


def run_seeds(layer_name: str, seeds: Iterable[int]) -> Iterator[Row]:
    """What a task does."""
    layer = layer_named(layer_name)
    for seed in seeds:
        began = time.monotonic()
        violation, probes = _run(layer, seed)
        yield Row(seed=seed, violation=violation, seconds=time.monotonic() - began, probes=probes)


def layer_named(name: str) -> Any:
    """Raises ValueError where the simulator is not there: it comes with a checkout, not with the wheel."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ValueError(f"{module} cannot be imported ({error}): run this from a checkout") from error


def _run(layer: Any, seed: int) -> tuple[str | None, list[str]]:
    try:
        outcome = layer.run(seed, False)
    except Exception as error:  # whatever a seed ends with is its outcome, and is kept
        return f"{type(error).__name__}: {error}", []
    return None, sorted(str(probe.value) for probe in outcome.probes)
