"""Rules broken on purpose, one at a time: the random schedules must find each."""
