"""A bookie's whole storage kept in order under random faults: collection, compaction, scrub, repair, limbo, salvage."""
