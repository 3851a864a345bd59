"""Convert the archives of a model's weights to a model in transformers format."""

import logging
from pathlib import Path

from waltz.core.files.archives import extract_folder
from waltz.core.jobs.records import log_job
from waltz.models.text.masked import convert_spanbert

with log_job(snakemake.log[0]):
    archives = list(map(Path, snakemake.input.weights))
    folder = Path(snakemake.output.folder)
    # SpanBERT has two archives: the first has the prediction head, the second has the
    # configuration.
    if snakemake.params.unpack == "spanbert":
        with_head, with_config = archives
        dropped = convert_spanbert(with_head, with_config, folder)
        logging.info(
            "weights of the archive that the model has no use for: %s",
            ", ".join(dropped) or "none",
        )
    else:
        extract_folder(archives[0], folder)
