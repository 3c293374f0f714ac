"""Adding and removing bookies of the cluster; shared by several groups of commands."""
