"""Side-by-side benchmarks: `make bench`. See README.md beside this file."""
