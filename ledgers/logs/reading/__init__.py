"""Reading a log, segment after segment, without disturbing its writer."""
