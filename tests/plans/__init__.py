"""Programs whose memory plans are verified by dry runs."""
