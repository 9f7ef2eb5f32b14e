"""Faster versions: attention kernels and dropout for every model, the rest for plain ones.

Packed training, search steps and the loss in chunks are used where `guard.is_plain` allows it.
"""
