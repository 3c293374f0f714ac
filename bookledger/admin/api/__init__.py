"""The REST API `/api/v1`: the cluster as JSON, for operators' programs."""
