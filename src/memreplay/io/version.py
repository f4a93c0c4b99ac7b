"""The version, as commands and files that are written say it."""

__version__ = "0.2.0"
