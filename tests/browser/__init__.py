"""Opens pages in real browsers; ci/viewer gets these."""
