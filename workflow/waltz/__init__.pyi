from waltz.explainer.encoder import explain as explain

__all__ = ["__version__", "explain"]
__version__: str
