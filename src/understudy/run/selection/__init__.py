"""``understudy select``: from what is asked to a release with the guarantee that it deserves."""
