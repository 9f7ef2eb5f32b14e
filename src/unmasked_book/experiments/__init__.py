"""What chapters 5, 15 and 16 train; appendix A has the records."""
