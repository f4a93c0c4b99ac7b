"""The native stages; one noun a file. Python code imports `memreplay._core`, never these."""
