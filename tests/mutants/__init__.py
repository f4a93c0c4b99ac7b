"""Mutation testing: small changes to the package's Python code, each of which some test should
notice.
"""
