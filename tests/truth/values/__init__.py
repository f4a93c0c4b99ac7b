"""Programs whose values a dry run computes, run on the host and on the fake card."""
