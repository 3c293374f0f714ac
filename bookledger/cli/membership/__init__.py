"""Which bookies belong to the cluster, and which are to leave: what several groups of commands share."""
