"""Private Evolution on images, and on captions with image voting (SPTI)."""
