"""Foundations of every stage: files, Parquet layouts, errors, devices, intervals and records of
runs.
"""
