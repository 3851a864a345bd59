"""Seven self-consistency tests that edit the input, the chain of thought or the explanation (thesis
5.2).
"""
