"""Shared native code: buffers, hash tables, the input window, errors."""
