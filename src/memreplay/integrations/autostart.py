"""Importing this module records the process, with the options in MEMREPLAY_OPTIONS."""

from memreplay.integrations.process import start

start()
