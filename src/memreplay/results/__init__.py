"""What each command found, as frozen dataclasses: a module a command, no behaviour, no I/O."""
