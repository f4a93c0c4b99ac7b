"""memreplay: exact replays of PyTorch memory snapshots, without torch and without a GPU."""
__version__ = "0.1.0"
