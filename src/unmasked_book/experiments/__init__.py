"""Holds experiments of chapters 5, 15, 16 and benchmarks/gpu.py; commit a560b84 has the others."""
