"""The terminal explorer, started by `memreplay explore`."""
