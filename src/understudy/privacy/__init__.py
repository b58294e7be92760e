"""The only way from private to public.

A privacy reviewer needs to read this package and nothing else: `vault` is the one object that holds
private records, `queries` bounds what one unit adds to a sum, `noise` draws the noise, `accounting`
turns it into (epsilon, delta), and `ledger` remembers what was spent on which dataset.
"""
