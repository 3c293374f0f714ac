"""Segment files, in the format of NameNodes and JournalNodes."""
