"""Holds what chapters 5, 15 and 16 and benchmarks/gpu.py train; commit a560b84 has the rest."""
