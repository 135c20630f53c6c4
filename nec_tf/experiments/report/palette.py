"""Colours of variants, in the order of their names."""

#: On white; contrast with the background is at least 4.5 to 1.
LIGHT = [
    *("#0b62a4", "#c2410c", "#15803d", "#7c3aed", "#be185d"),
    *("#0e7490", "#92590a", "#475569", "#9f1239", "#3f6212"),
]
#: The same hues on a dark background.
DARK = [
    *("#6cb4f2", "#fb9560", "#6fd08c", "#b79cf7", "#f48fb8"),
    *("#5cc7dd", "#e3b341", "#b0bccb", "#f08a9b", "#b5d36b"),
]
