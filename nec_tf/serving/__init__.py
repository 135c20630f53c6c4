"""Policies that leave training: frozen memories, SavedModels, memory files, clients of a server."""
