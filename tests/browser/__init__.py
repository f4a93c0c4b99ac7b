"""Opens pages in real browsers; ci/browsers gets these."""
