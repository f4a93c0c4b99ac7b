"""Interpret frames: whose code they are, which operator they belong to, and which patterns
match.
"""
