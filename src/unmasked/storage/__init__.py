"""Reads and writes what stays on a disk: whole files, models, and a training's checkpoints."""
