"""Benchmarks of sf against its peers; `make bench` runs them in an environment of their own."""
