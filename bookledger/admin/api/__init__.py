"""`/api/v1`: the cluster as JSON, for operators' programs."""
