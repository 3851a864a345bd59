"""Scores of LXMERT by the rules of VALSE's script, which Tables 3.4 and A.1 of the thesis are from.

MM-SHAP's script, the source of Tables 4.2 and B.1, scores the same pairs by other rules
(`evaluation.alignment`). VALSE's script cuts texts at 30 tokens, ranks by the logit of a match
alone, counts equal logits as a mismatch, and skips the items whose foil has equal logits.

Source: `lxmert_valse_eval.py` of VALSE (Parcalabescu et al., ACL 2022; `fidelity.RELEASED_CODE`).
"""

from collections.abc import Mapping
from dataclasses import replace

from waltz.core.errors import UserError
from waltz.core.rounding import compute_logit_rounding
from waltz.core.schema import EvaluationRecord, ItemRecord, ProbeRecord
from waltz.evaluation.items import list_texts
from waltz.evaluation.predictions import compute_match_probability
from waltz.evaluation.settings import RIGHT_PREDICTION, VALSE_SCRIPT
from waltz.fidelity import Fidelity
from waltz.models.encoders.alignment import Pair, PairScore
from waltz.models.encoders.encoder import Encoder

KIND = "lxmert"
"""Kind of the encoders that the script scores."""
MAX_TOKENS = 30
"""Maximum number of tokens of a text, special tokens included."""
TIED_FOIL = (
    "the foil's logits of match and mismatch are equal: VALSE's script skips the item"
)


def is_scored_by_valse_script(encoder: Encoder, item: ItemRecord | ProbeRecord) -> bool:
    """Return whether VALSE's script scores the texts of an item with this encoder: a caption-foil
    pair with an LXMERT.

    Texts of other images and CV-Probes are in no table of VALSE.
    """
    roles = dict(list_texts(item))
    return encoder.spec.kind == KIND and "foil" in roles


def cut_text(encoder: Encoder, text: str) -> str:
    """Return the beginning of a text that the script reads: `MAX_TOKENS` tokens with the special
    ones.

    A text that the encoder cannot read is returned unchanged; its score has the reason.
    """
    try:
        tokens = encoder.tokenize(text)
    except UserError:
        return text
    if len(tokens.ids) <= MAX_TOKENS:
        return text
    # The tokenizer cuts word pieces behind [CLS] and keeps [SEP]. The pieces of the beginning of a
    # word are the first pieces of the word, so the cut text has the ids that the script reads.
    n_closing = sum(tokens.special) - 1
    last = tokens.spans[MAX_TOKENS - n_closing - 1]
    return text[: last["end"]]


def build_valse_records(
    item: ItemRecord | ProbeRecord,
    scores: Mapping[Pair, PairScore],
    encoder: Encoder,
    fidelity: Fidelity,
) -> list[EvaluationRecord]:
    """Return the records of the caption and the foil of an item.

    Args:
        item: The item.
        scores: Log odds and match logit of each pair of an image and a cut text.
        encoder: The encoder that scored them.
        fidelity: Rules of the profile.
    """
    records = []
    for role, text in list_texts(item):
        score = scores[item.image, cut_text(encoder, text)]
        records.append(_build_record(item, role, score, encoder, fidelity))
    return records


def _build_record(
    item: ItemRecord | ProbeRecord,
    role: str,
    pair: PairScore,
    encoder: Encoder,
    fidelity: Fidelity,
) -> EvaluationRecord:
    """Return the record of one text, ranked by its match logit."""
    record = EvaluationRecord(
        item_id=item.item_id,
        role=role,
        profile=fidelity.name,
        setting=VALSE_SCRIPT,
        image=item.image,
        tokens=pair.tokens,
        error=pair.error,
    )
    if pair.numbers is None:
        return record
    log_odds, match_logit = pair.numbers
    # A foil without a score takes its item out of all metrics, as in the script.
    if role == "foil" and log_odds == 0:
        return replace(record, error=TIED_FOIL)
    prediction = "match" if log_odds > 0 else "mismatch"
    return replace(
        record,
        score=match_logit,
        rounding=compute_logit_rounding(match_logit, encoder.spec.dtype),
        probability=compute_match_probability(log_odds, fidelity),
        prediction=prediction,
        correct=prediction == RIGHT_PREDICTION[role],
    )
