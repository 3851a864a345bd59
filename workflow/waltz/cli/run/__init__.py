"""A run of Snakemake as the terminal shows it: its checkout, its targets, and the summary at its
end.
"""
