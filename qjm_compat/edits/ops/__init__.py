"""All ops of the edit log, by name. Importing this module registers them in `op.OPS`."""

from __future__ import annotations

from .attributes import (
    ClearNamesQuota as ClearNamesQuota,
    RemoveXAttr as RemoveXAttr,
    SetAcl as SetAcl,
    SetNamesQuota as SetNamesQuota,
    SetOwner as SetOwner,
    SetPermissions as SetPermissions,
    SetQuota as SetQuota,
    SetQuotaByStorageType as SetQuotaByStorageType,
    SetReplication as SetReplication,
    SetStoragePolicy as SetStoragePolicy,
    SetXAttr as SetXAttr,
    Times as Times,
)
from .cache import (
    AddCacheDirective as AddCacheDirective,
    AddCachePool as AddCachePool,
    ModifyCacheDirective as ModifyCacheDirective,
    ModifyCachePool as ModifyCachePool,
    RemoveCacheDirective as RemoveCacheDirective,
    RemoveCachePool as RemoveCachePool,
)
from .erasure_coding import (
    AddErasureCodingPolicy as AddErasureCodingPolicy,
    DisableErasureCodingPolicy as DisableErasureCodingPolicy,
    EnableErasureCodingPolicy as EnableErasureCodingPolicy,
    RemoveErasureCodingPolicy as RemoveErasureCodingPolicy,
)
from .files import (
    Add as Add,
    AddBlock as AddBlock,
    Append as Append,
    Close as Close,
    ReassignLease as ReassignLease,
    Truncate as Truncate,
    UpdateBlocks as UpdateBlocks,
)
from .namespace import (
    ConcatDelete as ConcatDelete,
    Delete as Delete,
    Mkdir as Mkdir,
    Rename as Rename,
    RenameOld as RenameOld,
    Symlink as Symlink,
)
from .segments import (
    AllocateBlockId as AllocateBlockId,
    EndLogSegment as EndLogSegment,
    RollingUpgradeFinalize as RollingUpgradeFinalize,
    RollingUpgradeStart as RollingUpgradeStart,
    SetGenstampV1 as SetGenstampV1,
    SetGenstampV2 as SetGenstampV2,
    StartLogSegment as StartLogSegment,
)
from .snapshots import (
    AllowSnapshot as AllowSnapshot,
    CreateSnapshot as CreateSnapshot,
    DeleteSnapshot as DeleteSnapshot,
    DisallowSnapshot as DisallowSnapshot,
    RenameSnapshot as RenameSnapshot,
)
from .tokens import (
    CancelDelegationToken as CancelDelegationToken,
    GetDelegationToken as GetDelegationToken,
    RenewDelegationToken as RenewDelegationToken,
    UpdateMasterKey as UpdateMasterKey,
)
