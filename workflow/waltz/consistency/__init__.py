"""Stage consistency: do answer and explanation rest on the same inputs?"""
