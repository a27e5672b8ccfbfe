"""What things are, and the rules about them. Pure: no I/O, no framework."""
