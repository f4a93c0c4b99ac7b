"""Results as text: documents, their layout, units, pictures."""
