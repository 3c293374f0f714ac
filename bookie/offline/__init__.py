"""Tools for a stopped bookie: check, dump, rebuild of the index, salvage."""
