"""Open inputs and write outputs."""
