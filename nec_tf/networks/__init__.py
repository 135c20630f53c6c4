"""Encoders: from observations to keys."""
