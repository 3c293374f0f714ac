"""Re-replication state: under-replication marks, lease locks, absent bookies, planned moves, operator requests."""
