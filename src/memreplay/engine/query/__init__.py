"""Groups, steps and pieces of measures."""
