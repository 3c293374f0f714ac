"""Work on a bookie that is stopped: check, dump, rebuild, salvage."""
