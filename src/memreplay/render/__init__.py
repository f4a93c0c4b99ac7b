"""Show results as text: documents, layout, units, plots."""
