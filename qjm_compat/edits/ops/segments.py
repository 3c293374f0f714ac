"""Ops of the edit log itself: the start and end of a segment, and the counters for allocating ids."""

from __future__ import annotations

from ..fields.field_types import I64
from ..op import EditOp, edit_op


@edit_op(24, "OP_START_LOG_SEGMENT")
class StartLogSegment(EditOp):
    """The first op of every segment."""


@edit_op(23, "OP_END_LOG_SEGMENT")
class EndLogSegment(EditOp):
    """The last op of a segment that was closed properly."""


@edit_op(10, "OP_SET_GENSTAMP_V1")
class SetGenstampV1(EditOp):
    """Sets the last generation stamp of blocks with random ids."""

    genstamp: I64


@edit_op(31, "OP_SET_GENSTAMP_V2")
class SetGenstampV2(EditOp):
    """Sets the last generation stamp of blocks with sequential ids."""

    genstamp: I64


@edit_op(32, "OP_ALLOCATE_BLOCK_ID")
class AllocateBlockId(EditOp):
    """Sets the last block id."""

    block_id: I64


@edit_op(41, "OP_ROLLING_UPGRADE_START")
class RollingUpgradeStart(EditOp):
    """Starts a rolling upgrade; until it is finalized, it can be rolled back to this point."""

    started_ms: I64


@edit_op(42, "OP_ROLLING_UPGRADE_FINALIZE")
class RollingUpgradeFinalize(EditOp):
    """Finalizes a rolling upgrade; it can no longer be rolled back."""

    finalized_ms: I64
