"""Rolling: equal consecutive blocks of operations, as a loop of Python leaves them, become a counted loop."""
