"""Numbers over the rows of the tests and of CC-SHAP: means, spreads, correlations."""
