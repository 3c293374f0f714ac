"""Cursors of a log: named positions that outlive their readers."""
