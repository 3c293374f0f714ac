"""Ops on erasure coding policies, available from layout -64 on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..fields.field_types import I32, String, array, record
from ..op import RetriedOp, edit_op

OPTIONS_MAX = 64 * 1024
"""Maximum number of options of one policy; Hadoop sets no limit and uses no options."""


@dataclass(frozen=True, slots=True)
class ExtraOption:
    key: String
    value: String


ExtraOptions = Annotated[tuple[ExtraOption, ...], array(record(ExtraOption), OPTIONS_MAX)]


@dataclass(frozen=True, slots=True)
class ErasureCodingPolicy:
    """How a file is split into cells, and how many cells may be lost."""

    codec: String
    data_units: I32
    parity_units: I32
    cell_bytes: I32
    options: ExtraOptions = ()


Policy = Annotated[ErasureCodingPolicy, record(ErasureCodingPolicy)]


@edit_op(49, "OP_ADD_ERASURE_CODING_POLICY")
class AddErasureCodingPolicy(RetriedOp):
    policy: Policy


@edit_op(50, "OP_ENABLE_ERASURE_CODING_POLICY")
class EnableErasureCodingPolicy(RetriedOp):
    policy_name: String


@edit_op(51, "OP_DISABLE_ERASURE_CODING_POLICY")
class DisableErasureCodingPolicy(RetriedOp):
    """Disables a policy for new files."""

    policy_name: String


@edit_op(52, "OP_REMOVE_ERASURE_CODING_POLICY")
class RemoveErasureCodingPolicy(RetriedOp):
    policy_name: String
