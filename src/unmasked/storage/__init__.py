"""Reads and writes files of models and of tensors with JSON, and locks a training's folder."""
