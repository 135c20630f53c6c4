"""Start-up, graphs that are called often, threads and cores, errors for users."""
