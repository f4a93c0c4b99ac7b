"""Programs that keep memory alive, in common ways and in harmless ones."""
