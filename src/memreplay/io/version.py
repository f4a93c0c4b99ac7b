"""memreplay's version number."""

__version__ = "0.2.0"
