"""The command line: the composition root of the project. Modules are imported when a command needs them."""
