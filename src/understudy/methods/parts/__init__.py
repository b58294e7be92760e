"""What methods are made of: how they are described, what they are handed, what several share."""
