"""The consistency check behind `journal fsck`."""
