"""Small trainings of eight kinds. Each is a script for the card."""
