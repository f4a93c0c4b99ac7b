"""The programs, several to a file: each is a function with `@planted`."""
