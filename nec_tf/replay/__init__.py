"""Replay memories; each frame is stored once."""
