"""``understudy web`` and ``understudy device web``: the command line as pages on one's own machine.

Nothing is decided here: a page shows what planning, run, release, evaluation, audit and device
say, and an action is a command of the command line, in a process of its own and shown to be copied.
"""
