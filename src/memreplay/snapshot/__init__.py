"""A snapshot and its replays, as Python sees them."""
