"""Stage `foils`: the candidates that are built from captions, statements, dialogues or frames, by
instrument.
"""
