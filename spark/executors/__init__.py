"""What a task does: opens ledgers and reads their pages."""
