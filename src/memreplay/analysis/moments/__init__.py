"""Events that people mean: moments, annotations, addresses."""
