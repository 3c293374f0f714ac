"""Tools for a stopped bookie: check, dump, index rebuild, salvage."""
