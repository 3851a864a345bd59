"""Stage measures: what T-SHAP, CC-SHAP and the self-consistency tests themselves are worth."""
