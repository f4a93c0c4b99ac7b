"""The outputs of memreplay: one a file, each a pure function of a result."""
