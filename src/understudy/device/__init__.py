"""The device of SpinML: shows its owner what would leave, and sends exactly that."""
