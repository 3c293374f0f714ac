"""The REST API `/api/v1`: the cluster's state as JSON, for operators' programs."""
