"""Stage measures: measure how far T-SHAP, CC-SHAP and the self-consistency tests can be trusted."""
