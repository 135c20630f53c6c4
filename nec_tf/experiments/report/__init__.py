"""The report: recorded runs as statistics, tables, figures and one self-contained page.

- `records`: reads `results/` and `runs/`.
- `statistics`: aggregates over games with bootstrap intervals (rliable's definitions).
- `published`: scores of the paper's agents and of the Atari-100k agents.
- `analysis`, `comparisons`, `literature`: tables from records and published scores.
- `figures` (Plotly, for the page), `pictures` (Matplotlib, PNG).
- `page`, `documents`, `writing`, `screenshot`: the HTML page, README and docs, all files of a
  report, and a picture of the page.

Needs no TensorFlow.
"""
