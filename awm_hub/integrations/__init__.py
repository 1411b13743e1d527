"""Agents of other libraries on live instances."""
