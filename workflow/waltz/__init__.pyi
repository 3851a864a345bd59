from waltz.core.errors import UserError as UserError
from waltz.explainer.explainer import Explainer as Explainer
from waltz.models.encoders.kinds.function import FunctionModel as FunctionModel

__all__ = ["Explainer", "FunctionModel", "UserError", "__version__"]
__version__: str
