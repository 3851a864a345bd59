from waltz.core.errors import UserError as UserError
from waltz.explainer.explainer import Explainer as Explainer

__all__ = ["Explainer", "UserError", "__version__"]
__version__: str
