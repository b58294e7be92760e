"""The device of SpinML: shows its owner exactly what would leave, and sends that and nothing else."""
