"""What every native stage stands on: buffers, hashes, the window, errors."""
