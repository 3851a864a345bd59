"""CC-SHAP: whether a decoder's answer and its explanation rest on the same inputs (thesis 5.2)."""
