"""Programs that memreplay starts, to record them or to run them dry."""
