"""The contract of a journal's acceptors, part by part."""
