"""Every op of the edit log; importing this makes all of them known to `op.OPS`."""

from __future__ import annotations

from . import attributes, cache, erasure_coding, files, namespace, segments, snapshots, tokens

__all__ = ["attributes", "cache", "erasure_coding", "files", "namespace", "segments", "snapshots", "tokens"]
