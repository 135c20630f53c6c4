"""Programs that train and evaluate, and the one experiment loop that they share."""
