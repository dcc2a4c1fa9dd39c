"""What goes wrong with what the user gave."""


class UsageError(Exception):
    """Ends the program: an option, a folder or a file is not what it has to be."""


class LineError(Exception):
    """One line of the input cannot be used, and why; the reader adds file and line."""
