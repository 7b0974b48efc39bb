"""Tests that a mutant had to survive before anybody thought of them (tools/mutants.py)."""
