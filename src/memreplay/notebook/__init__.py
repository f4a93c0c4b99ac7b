"""Commands in the cells of a notebook."""
