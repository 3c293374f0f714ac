"""Sets of logs: keys spread over several logs, which the members of a group share."""
