"""One published method, one file. A method is handed a vault and models; it never sees a row."""
