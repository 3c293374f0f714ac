"""python -m tests.simulation LAYER …: see `engine/campaign.py`."""

from __future__ import annotations

import sys

from .engine.campaign import main
from .layers import LAYERS, layer_named

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in LAYERS:
        sys.exit(f"name a layer: {', '.join(LAYERS)}")
    sys.exit(main(layer_named(sys.argv[1]), sys.argv[2:]))
