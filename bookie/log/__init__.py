"""The bookie's log: record format, segment files, the writer thread with group commit, replay."""
