"""Measures next to MM-SHAP: ablation, perceptual score, EMAP, attention relevance."""
