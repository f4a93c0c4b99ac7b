"""The cards and the recordings that run now, for `memreplay watch --live`."""
