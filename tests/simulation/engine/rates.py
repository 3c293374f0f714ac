"""How many of so many seeds find each planted bug: the table of RELIABILITY.md.

python -m tests.simulation.engine.rates --seeds 3000
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.cores.cluster import Failed, run_seed
from tests.simulation.cores.planted.table import PAIRS, PLANTS, SAFE_ALONE, Both, Plant

KNOWN_SHOWN_MAX = 3

EVERYTHING: tuple[Plant | Both, ...] = (*PLANTS, *(Plant(plant, 0) for plant in SAFE_ALONE), *PAIRS)


def found_by(number: int, seeds: range) -> list[int]:
    """The seeds that find this planted bug."""
    with pytest.MonkeyPatch.context() as patch:
        EVERYTHING[number].plant(patch)
        return [seed for seed in seeds if _fails(seed)]


def _fails(seed: int) -> bool:
    try:
        run_seed(seed, tracing=False)
    except Failed:
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="rates", description="How many seeds find each planted bug.")
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--only", default="", help="part of a plant's name")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    wanted = [n for n, plant in enumerate(EVERYTHING) if arguments.only in plant.name]
    with ProcessPoolExecutor(arguments.processes, get_context("fork")) as pool:
        for n, seeds in zip(
            wanted, pool.map(found_by, wanted, [range(arguments.seeds)] * len(wanted)), strict=True
        ):
            _show(EVERYTHING[n], seeds)


def _show(plant: Plant | Both, seeds: list[int]) -> None:
    first = ", ".join(map(str, seeds[:KNOWN_SHOWN_MAX])) or "none"
    print(f"{len(seeds):6d}  {plant.name}  (first {first}; budget {plant.seeds_max})", flush=True)


if __name__ == "__main__":
    main()
