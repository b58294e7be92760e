"""``python -m understudy``: the command line, where its script is not on the path."""

from understudy.cli.main import main

main()
