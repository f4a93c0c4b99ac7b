"""The command line: a folder a command."""
