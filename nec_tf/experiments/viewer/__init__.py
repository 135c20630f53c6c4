"""A local page that shows an agent deciding, and what its memory holds: trainers/watch.py."""
