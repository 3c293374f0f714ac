"""The state of a cluster from its metadata: live bookies, under-replicated ledgers, repairs, balance."""
