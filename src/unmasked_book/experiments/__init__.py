"""What chapters 5, 15 and 16 and the GPU's benchmark train; appendix A has the records."""
