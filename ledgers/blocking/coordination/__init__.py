"""Blocking cursors and elections: what programs coordinate through besides ledgers and logs."""
