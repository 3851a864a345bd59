"""Stage `filters`: scores of models for candidates: how grammatical a foil is, whether it
contradicts its caption.
"""
