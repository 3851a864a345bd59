"""Models of a study: their kinds, paths of their files, and files that are fetched."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from waltz.core.errors import UserError
from waltz.core.files.downloads import LOCK_ON_DOWNLOAD, get_archive_member
from waltz.core.files.resources import find_resource
from waltz.model_registry import (
    BERT_REVISION,
    BERT_TOKENIZER,
    DETECTOR_CONFIGS,
    DTYPE_BYTES,
    ModelSpec,
    estimate_gpu_memory,
    get_encoder_module,
    is_hub_snapshot,
    is_packaged,
    list_detector_files,
    list_downloads,
    list_encoder_kinds,
    list_hub_copies,
    list_weight_files,
    load_registry,
    may_borrow_tokenizer,
    resolve_model,
    select_decisive_fields,
    set_local_paths,
)
from waltz.plan.study import Settings, Study


@dataclass(frozen=True)
class Models:
    """The models of a study.

    Attributes:
        resolved: By name, each as the registry and the study describe it.
        profiles: Fidelity profiles of the study.
        folder: Folder of fetched weights.
    """

    resolved: Mapping[str, ModelSpec]
    profiles: tuple[str, ...]
    folder: str

    @classmethod
    def from_study(cls, study: Study) -> "Models":
        """Return the models that a study names, and the registered detectors that they need.

        Raises:
            UserError: An entry names no weights, or something else that cannot be resolved.
        """
        specs = {name: resolve_model(name, entry.to_dict()) for name, entry in study.models.items()}
        for name in {spec.detector for spec in specs.values() if not spec.regions} & load_registry().keys():
            specs.setdefault(name, resolve_model(name, {}))
        return cls(specs, tuple(study.profiles), study.weights)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.resolved)

    def __getitem__(self, name: str) -> ModelSpec:
        """Return a model with the paths of its fetched files."""
        return self.specs[name]

    @cached_property
    def specs(self) -> dict[str, ModelSpec]:
        """Models with the paths of their fetched files."""
        detectors = {
            name: set_local_paths(spec, self.folder, {}).weights
            for name, spec in self.resolved.items()
            if spec.kind in DETECTOR_CONFIGS
        }
        return {name: set_local_paths(spec, self.folder, detectors) for name, spec in self.resolved.items()}

    @cached_property
    def run_here(self) -> dict[str, ModelSpec]:
        """Resolved models that jobs run, whose weights are needed: all but recorded ones."""
        return {name: spec for name, spec in self.resolved.items() if not spec.recorded}

    @cached_property
    def web_files(self) -> dict[str, tuple[str, str]]:
        """Url and checksum of each file of weights that is fetched, by its path."""
        return {
            path: (url, spec.sha256 if url == spec.weights else LOCK_ON_DOWNLOAD)
            for spec in self.run_here.values()
            for url, path in list_downloads(spec, self.folder).items()
        }

    @cached_property
    def snapshots(self) -> dict[str, str]:
        """Repositories of the hub that are fetched as a whole, by their path."""
        return {self.specs[name].weights: spec.weights for name, spec in self.run_here.items() if is_hub_snapshot(spec)}

    @cached_property
    def cached(self) -> set[str]:
        """Files that say what lies in the hub's cache: weights and detectors of models that are loaded from there."""
        return {self._mark_cached(*copy) for spec in self.run_here.values() for copy in list_hub_copies(spec)}

    @cached_property
    def borrowed_tokenizer(self) -> str:
        """File that says that the tokenizer of checkpoints without one lies in the hub's cache."""
        return self._mark_cached(BERT_TOKENIZER, BERT_REVISION)

    @cached_property
    def packages(self) -> dict[str, ModelSpec]:
        """Models whose weights come in Python packages, by the folder of the weights."""
        return {self.specs[name].weights: spec for name, spec in self.run_here.items() if is_packaged(spec)}

    @cached_property
    def locked(self) -> dict[str, str]:
        """Origin of the weights of each model whose revision only the lock file knows."""
        return {name: spec.weights for name, spec in self.run_here.items() if spec.revision == LOCK_ON_DOWNLOAD}

    @cached_property
    def fetched(self) -> set[str]:
        """Paths of all that is fetched, unpacked or taken out of an archive."""
        unpacked = {self.specs[name].weights for name, spec in self.run_here.items() if spec.unpack}
        members = {self.specs[name].answers for name, spec in self.run_here.items() if get_archive_member(spec.answers)}
        borrowed = [self.borrowed_tokenizer] if any(map(may_borrow_tokenizer, self.run_here.values())) else []
        return {*self.web_files, *self.snapshots, *self.cached, *borrowed, *self.packages, *unpacked, *members}

    def list_archives(self, name: str) -> list[str]:
        """Return the fetched files that the weights of a model are unpacked from."""
        spec = self.resolved[name]
        return [path for url, path in list_downloads(spec, self.folder).items() if url in (spec.weights, spec.config)]

    def get_answer_archive(self, name: str) -> str:
        """Return the fetched archive that the answers of an encoder are taken from."""
        spec = self.resolved[name]
        return list_downloads(spec, self.folder)[spec.answers.partition("#")[0]]

    def get_answer_member(self, name: str) -> str:
        """Return the path of an encoder's answers in their archive."""
        return get_archive_member(self.resolved[name].answers)

    def get_settings(self, name: str) -> Settings:
        """Return the part of a model's entry that its numbers depend on."""
        return select_decisive_fields(self.specs[name])

    def get_module(self, name: str) -> str:
        """Return the full name of the module of an encoder's kind."""
        return get_encoder_module(self.specs[name].kind)

    def list_weight_files(self, *names: str) -> list[str]:
        """Return the files of some models' weights that lie here, or the path of those that are fetched."""
        files: list[str] = []
        for name in dict.fromkeys(names):
            spec = self.specs[name]
            if spec.recorded:
                continue
            copies = {spec.weights, self._mark_cached(spec.weights, spec.revision)} & self.fetched
            files += copies or list_weight_files(spec)
        return files

    def list_files(self, *names: str) -> list[str]:
        """Return the files of models that are here or fetched: weights, tokenizer, detector, regions and answers."""
        files = []
        for name in dict.fromkeys(names):
            spec = self.specs[name]
            own = [path for path in (spec.regions, spec.answers, spec.config) if path and self._exists(path)]
            # Of the entry, not of fetched files: these are there after the first run, and inputs must stay the same.
            borrows = may_borrow_tokenizer(self.resolved[name]) and not spec.recorded
            borrowed = [self.borrowed_tokenizer] if borrows else []
            files += [*self.list_weight_files(name), *self._list_detector_files(spec), *borrowed, *own]
        return files

    def _list_detector_files(self, spec: ModelSpec) -> list[str]:
        """Return the files of the detector that a model's entry names: those that are fetched, else those here."""
        if (marker := self._mark_cached(spec.detector, spec.detector_revision)) in self.cached:
            return [marker]
        if spec.detector not in self.fetched:
            return list_detector_files(spec)
        configs = (str(Path(spec.detector).with_name(name)) for name in DETECTOR_CONFIGS.values())
        return [spec.detector, *(path for path in configs if path in self.fetched)]

    def list_prompt_files(self, *names: str) -> list[str]:
        """Return the prompt files of some decoders."""
        specs = [self.specs[name] for name in names]
        paths = [
            *(find_resource("prompts", f"{profile}.yaml") for profile in self.profiles),
            *(find_resource("prompts", spec.prompts) for spec in specs if spec.prompts),
            *(find_resource("chat-templates", spec.chat_template) for spec in specs if spec.chat_template),
        ]
        return list(dict.fromkeys(os.path.relpath(path) for path in paths))

    def estimate_memory_mb(self, *names: str) -> int:
        """Return the main memory that a job requests for the models that it loads: their weights and working memory."""
        specs = [self.specs[name] for name in dict.fromkeys(names)]
        return 8000 + round(sum(1.2 * DTYPE_BYTES[spec.dtype] * spec.parameters for spec in specs) / 1e6)

    def estimate_gpu_gb(self, *names: str) -> int:
        """Return the GPU memory in GB that a job needs for the models that it loads."""
        return sum(estimate_gpu_memory(self.specs[name]) for name in dict.fromkeys(names))

    def count_gpus(self, names: Iterable[str], available: int | None) -> int:
        """Return the number of GPUs of a job: that of its largest model, 0 if it loads none.

        Args:
            names: Models that the job loads.
            available: GPUs of the run (`--resources gpu=2`); None where no number is given, 0 for a run on CPUs.
        Raises:
            UserError: A model needs more GPUs than the run has.
        """
        gpus = {name: self.specs[name].gpus for name in names}
        for name, needed in gpus.items():
            if available and needed > available:
                raise UserError(
                    f"models.{name}.gpus: more GPUs than the run has (got --resources gpu={available}, expected"
                    f" at least {needed} for {estimate_gpu_memory(self.specs[name])} GB); give the run more, set fewer"
                    f" where they are large enough, or name {name} under skipped"
                )
        return max(gpus.values(), default=0)

    def get_kind(self, name: str) -> str:
        """Return the kind of a model.

        Returns:
            `language`, `vision` (a VL decoder), `encoder`, `answering` (an encoder with an answering head), or the kind
            of a model that is run for others.
        """
        kind = self.specs[name].kind
        if kind in list_encoder_kinds():
            return "answering" if kind.endswith("-answering") else "encoder"
        return {"text": "language", "vision": "vision"}.get(kind, kind)

    def _mark_cached(self, path: str, commit: str) -> str:
        """Return the file that says that a repository, or a file of one, lies in the hub's cache."""
        return f"{self.folder}/cached/{path}@{commit}"

    def _exists(self, path: str) -> bool:
        return path in self.fetched or Path(path).exists()
