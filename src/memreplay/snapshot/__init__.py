"""The Python API for a snapshot and its replays."""
