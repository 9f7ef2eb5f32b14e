"""All that touches a disk: whole files, a model's folder, a training's checkpoints."""
