"""Models of a study: their kinds, paths of their files, and files that are fetched."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.secret_url import SecretUrl
from waltz.core.downloads.urls import get_archive_member, name_origin
from waltz.core.errors import UserError
from waltz.core.files.resources import find_resource
from waltz.model_registry import (
    BERT_REVISION,
    BERT_TOKENIZER,
    DETECTOR_CONFIGS,
    DTYPE_BYTES,
    ModelSpec,
    answers_questions,
    estimate_gpu_memory,
    get_encoder_module,
    is_hub_snapshot,
    is_packaged,
    list_base_files,
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
    split_base,
)
from waltz.plan.run_table import unique
from waltz.plan.study import Settings, Study

WORKING_MB = 8000
"""Main memory of a job in MB without the weights of its models."""
WEIGHTS_FACTOR = 1.2
"""Main memory of a model as a multiple of its weights; loading copies a part of them."""


@dataclass(frozen=True)
class Models:
    """The models of a study.

    Attributes:
        resolved: Models by name, each with the merged entries of the registry and the study.
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
            UserError: An entry cannot be resolved, for instance because it names no weights.
        """
        # Detectors that only the registry names are needed as models, too, since their weights are
        # fetched.
        specs = {
            name: resolve_model(name, entry.to_dict())
            for name, entry in study.models.items()
        }
        # Stored regions need no detector.
        used_detectors = {spec.detector for spec in specs.values() if not spec.regions}
        for name in used_detectors & load_registry().keys():
            specs.setdefault(name, resolve_model(name, {}))
        return cls(specs, tuple(study.profiles), study.weights)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the models."""
        return iter(self.resolved)

    def __getitem__(self, name: str) -> ModelSpec:
        """Return the model of a name, with the paths of its fetched files."""
        return self.specs[name]

    @cached_property
    def specs(self) -> dict[str, ModelSpec]:
        """Return the models by name, with the paths of their fetched files."""
        # An encoder refers to its detector by name; the detector's path has to be known first.
        detectors = {
            name: set_local_paths(spec, self.folder, {}).weights
            for name, spec in self.resolved.items()
            if spec.kind in DETECTOR_CONFIGS
        }
        return {
            name: set_local_paths(spec, self.folder, detectors)
            for name, spec in self.resolved.items()
        }

    @cached_property
    def run_here(self) -> dict[str, ModelSpec]:
        """Return the resolved models that jobs run and whose weights are needed: all but recorded
        models.
        """
        return {name: spec for name, spec in self.resolved.items() if not spec.recorded}

    @cached_property
    def web_files(self) -> dict[str, tuple[SecretUrl, str]]:
        """Return url and checksum of each file that is fetched from the web for a model, by the
        path of the file.
        """
        files = {}
        for spec in self.run_here.values():
            for url, path in list_downloads(spec, self.folder).items():
                # The entry has a checksum of the weights only; the lock file records it for other
                # files.
                checksum = spec.sha256 if url == spec.weights else LOCK_ON_DOWNLOAD
                files[path] = (SecretUrl(url), checksum)
        return files

    @cached_property
    def snapshots(self) -> dict[str, str]:
        """Return the hub repositories that are fetched completely: id by path of the copy."""
        return {
            self.specs[name].weights: spec.weights
            for name, spec in self.run_here.items()
            if is_hub_snapshot(spec)
        }

    @cached_property
    def cached(self) -> set[str]:
        """Return the marker files of all models and detectors that are loaded from the hub's cache."""
        return {
            self._mark_cached(*copy)
            for spec in self.run_here.values()
            for copy in list_hub_copies(spec)
        }

    @cached_property
    def borrowed_tokenizer(self) -> str:
        """Return the marker file of the tokenizer in the hub's cache that checkpoints without
        tokenizer borrow.
        """
        return self._mark_cached(BERT_TOKENIZER, BERT_REVISION)

    @cached_property
    def packages(self) -> dict[str, ModelSpec]:
        """Return the models whose weights come in Python packages, by the folder of the weights."""
        return {
            self.specs[name].weights: spec
            for name, spec in self.run_here.items()
            if is_packaged(spec)
        }

    @cached_property
    def locked(self) -> dict[str, str]:
        """Return the origin of the weights of each model whose revision only the lock file records,
        by model.
        """
        return {
            name: name_origin(spec.weights)
            for name, spec in self.run_here.items()
            if spec.revision == LOCK_ON_DOWNLOAD
        }

    @cached_property
    def fetched(self) -> set[str]:
        """Return the paths of all files and folders that are fetched, unpacked or extracted."""
        paths = {*self.web_files, *self.snapshots, *self.cached, *self.packages}
        # Files that jobs make from fetched ones: unpacked weights and answers from an archive.
        for name, spec in self.run_here.items():
            if spec.unpack:
                paths.add(self.specs[name].weights)
            if get_archive_member(spec.answers):
                paths.add(self.specs[name].answers)
            if may_borrow_tokenizer(spec):
                paths.add(self.borrowed_tokenizer)
        return paths

    def list_archives(self, name: str) -> list[str]:
        """Return the fetched files from which the weights of a model are unpacked."""
        spec = self.resolved[name]
        archives = (spec.weights, spec.config)
        return [
            path
            for url, path in list_downloads(spec, self.folder).items()
            if url in archives
        ]

    def get_answer_archive(self, name: str) -> str:
        """Return the path of the fetched archive that contains the answers of an encoder."""
        spec = self.resolved[name]
        return list_downloads(spec, self.folder)[spec.answers.partition("#")[0]]

    def get_answer_member(self, name: str) -> str:
        """Return the path of an encoder's answers inside their archive."""
        return get_archive_member(self.resolved[name].answers)

    def get_settings(self, name: str) -> Settings:
        """Return the part of a model's entry on which its numbers depend."""
        return select_decisive_fields(self.specs[name])

    def get_settings_by_key(self, names: Mapping[str, str]) -> dict[str, Settings]:
        """Return the settings of several models by key; `names` has the model of each key."""
        return {key: self.get_settings(name) for key, name in names.items()}

    def get_unpacking(self, name: str) -> str:
        """Return how a model's archive of weights is unpacked (`folder` or `spanbert`); empty
        without an archive.
        """
        return self.specs[name].unpack

    def lacks_weights(self, marker: str) -> bool:
        """Return whether only the tokenizer of a repository is fetched into the hub's cache, and no
        weights.

        Args:
            marker: Marker file of the repository.
        """
        return marker not in self.cached

    def get_module(self, name: str) -> str:
        """Return the full name of the module that implements the kind of an encoder."""
        return get_encoder_module(self.specs[name].kind)

    def list_weight_files(self, *names: str) -> list[str]:
        """Return the paths of the weights of some models: fetched copies, or else files on this
        machine.
        """
        files: list[str] = []
        for name in unique(names):
            spec = self.specs[name]
            if spec.recorded:
                continue
            # Weights are fetched to a separate folder, or into the hub's cache, where a marker file
            # represents them.
            fetched_copies = {
                spec.weights,
                self._mark_cached(spec.weights, spec.revision),
            } & self.fetched
            files += fetched_copies or list_weight_files(spec)
        return files

    def list_files(self, *names: str) -> list[str]:
        """Return the fetched or existing files of some models: weights, tokenizer, detector,
        regions and answers.
        """
        files = []
        for name in unique(names):
            files += self.list_weight_files(name)
            files += self._list_base_files(self.specs[name])
            files += self._list_detector_files(self.specs[name])
            files += self._list_borrowed_tokenizer(name)
            files += self._list_named_files(self.specs[name])
        return files

    def _list_borrowed_tokenizer(self, name: str) -> list[str]:
        """Return a list with the marker of the tokenizer that a model borrows; empty if it borrows
        none.

        The entry of the model decides, not the files on disk: they change with the first run, but
        inputs must not.
        """
        if self.specs[name].recorded or not may_borrow_tokenizer(self.resolved[name]):
            return []
        return [self.borrowed_tokenizer]

    def _list_named_files(self, spec: ModelSpec) -> list[str]:
        """Return the regions, answers and configuration that a model's entry names and that exist
        or are fetched.
        """
        paths = filter(None, (spec.regions, spec.answers, spec.config))
        return list(filter(self._exists, paths))

    def _list_base_files(self, spec: ModelSpec) -> list[str]:
        """Return the marker of a base in the hub's cache, or its files on this machine."""
        # A base from the hub is represented by a marker, as weights and detectors are.
        marker = self._mark_cached(*split_base(spec))
        if marker in self.cached:
            return [marker]
        return list_base_files(spec)

    def _list_detector_files(self, spec: ModelSpec) -> list[str]:
        """Return the files of a model's detector: fetched files, or else files on this machine."""
        # A detector from the hub is represented by a marker; a fetched file has its configuration
        # next to it.
        marker = self._mark_cached(spec.detector, spec.detector_revision)
        if marker in self.cached:
            return [marker]
        if spec.detector not in self.fetched:
            return list_detector_files(spec)
        files = [spec.detector]
        # The configuration is optional: only a fetched one counts.
        for name in DETECTOR_CONFIGS.values():
            config = str(Path(spec.detector).with_name(name))
            if config in self.fetched:
                files.append(config)
        return files

    def list_prompt_files(self, *names: str) -> list[str]:
        """Return the prompt files of some decoders: of the profiles, then of the decoders, then
        chat templates.
        """
        if not names:
            return []
        prompts = [f"{profile}.yaml" for profile in self.profiles]
        templates = []
        for name in names:
            spec = self.specs[name]
            prompts.append(spec.prompts)
            templates.append(spec.chat_template)
        # Decoders may share files, so each is listed once; most decoders name none.
        paths = [find_resource("prompts", file) for file in filter(None, prompts)]
        paths += [
            find_resource("chat-templates", file) for file in filter(None, templates)
        ]
        return unique(map(os.path.abspath, paths))

    def estimate_memory_mb(self, *names: str) -> int:
        """Return the main memory in MB that a job requests for its models: weights and working
        memory.
        """
        weight_bytes = 0.0
        for name in unique(names):
            spec = self.specs[name]
            weight_bytes += WEIGHTS_FACTOR * DTYPE_BYTES[spec.dtype] * spec.parameters
        return WORKING_MB + round(weight_bytes / 1e6)

    def estimate_gpu_gb(self, *names: str) -> int:
        """Return the GPU memory in GB that a job needs for its models."""
        return sum(estimate_gpu_memory(self.specs[name]) for name in unique(names))

    def count_gpus(self, names: Iterable[str], available: int | None) -> int:
        """Return the number of GPUs that a job requests: as many as its largest model needs; 0 if
        it loads no model.

        Args:
            names: Models that the job loads.
            available: GPUs of the run (`--resources gpu=2`); None if the run states no number, 0
                for a run on CPUs.
        Raises:
            UserError: A model needs more GPUs than the run has.
        """
        # Models of one job share its GPUs, so the largest model decides.
        largest = 0
        for name in names:
            needed = self.specs[name].gpus
            if available and needed > available:
                raise UserError(
                    f"models.{name}.gpus: more GPUs than the run has (got --resources gpu={available}, expected"
                    f" at least {needed} for {estimate_gpu_memory(self.specs[name])} GB); give the run more, set fewer"
                    f" where they are large enough, or name {name} under skipped"
                )
            largest = max(largest, needed)
        return largest

    def get_kind(self, name: str) -> str:
        """Return the kind of a model.

        Returns:
            `language`, `vision` (a VL decoder), `encoder`, `answering` (an encoder with an
            answering head), or the registered kind of a helping model, such as a detector or
            classifier.
        """
        # Studies and tables use fewer kinds than the registry: all encoders are one kind.
        spec = self.specs[name]
        kind = spec.kind
        if kind in list_encoder_kinds():
            return "answering" if answers_questions(spec) else "encoder"
        return {"text": "language", "vision": "vision"}.get(kind, kind)

    def _mark_cached(self, path: str, commit: str) -> str:
        """Return the marker file that shows that a repository, or a file of it, is in the hub's
        cache.
        """
        return f"{self.folder}/cached/{path}@{commit}"

    def _exists(self, path: str) -> bool:
        """Return whether a file exists or will be fetched."""
        return path in self.fetched or Path(path).exists()
