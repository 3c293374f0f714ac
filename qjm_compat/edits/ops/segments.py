"""The edit log about itself: where a segment begins and ends, and the counters behind ids."""

from __future__ import annotations

from ..fields.kinds import I64
from ..op import EditOp, edit_op


@edit_op(24, "OP_START_LOG_SEGMENT")
class StartLogSegment(EditOp):
    """The first op of every segment."""


@edit_op(23, "OP_END_LOG_SEGMENT")
class EndLogSegment(EditOp):
    """The last op of a segment that was ended in order."""


@edit_op(10, "OP_SET_GENSTAMP_V1")
class SetGenstampV1(EditOp):
    """The last generation stamp, of blocks whose ids are random."""

    genstamp: I64


@edit_op(31, "OP_SET_GENSTAMP_V2")
class SetGenstampV2(EditOp):
    """The last generation stamp, of blocks whose ids are counted."""

    genstamp: I64


@edit_op(32, "OP_ALLOCATE_BLOCK_ID")
class AllocateBlockId(EditOp):
    """The last block id."""

    block_id: I64


@edit_op(41, "OP_ROLLING_UPGRADE_START")
class RollingUpgradeStart(EditOp):
    """A rolling upgrade began, and can be rolled back to here."""

    started_ms: I64


@edit_op(42, "OP_ROLLING_UPGRADE_FINALIZE")
class RollingUpgradeFinalize(EditOp):
    """A rolling upgrade can no longer be rolled back."""

    finalized_ms: I64
