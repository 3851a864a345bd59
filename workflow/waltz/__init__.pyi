from waltz.core.errors import UserError as UserError
from waltz.explainer.cc_shap_summary import summarize_cc_shap as summarize_cc_shap
from waltz.explainer.explainer import Explainer as Explainer
from waltz.models.encoders.kinds.function import FunctionModel as FunctionModel

__all__ = [
    "Explainer",
    "FunctionModel",
    "UserError",
    "__version__",
    "summarize_cc_shap",
]
__version__: str
