"""Judge which stacks leak."""
