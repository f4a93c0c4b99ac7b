"""The planted programs, several per file. Each is a function decorated with `@planted`."""
