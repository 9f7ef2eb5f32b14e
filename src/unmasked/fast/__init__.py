"""The numbers of plain models, quicker: packed training, search steps, the loss in chunks.

They are used where `guard.is_plain` allows it; what serves every model stands in `kernels.py`.
"""
