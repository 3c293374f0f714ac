"""Re-replication: auditor, replication worker, local consistency check, planned moves."""
