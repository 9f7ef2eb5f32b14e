"""What is kept on a disk: whole files, a model's folder, a training's checkpoints."""
