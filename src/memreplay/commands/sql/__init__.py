"""`memreplay sql`."""
