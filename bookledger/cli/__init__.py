"""The command line: the composition root of the project. Commands import their modules lazily."""
