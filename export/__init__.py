"""Programs with which a trained policy leaves for production, and comes back to be trained on."""
