"""Draw a few attributed items of one encoder, for every data set of a group."""

from waltz.core.devices import lease_device
from waltz.core.files.group_files import read_runs
from waltz.core.job_records import log_job
from waltz.core.schema import ATTRIBUTION
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.reporting.figures.explanations import draw_encoder_example, select_example_items
from waltz.reporting.figures.figure_files import save_examples
from waltz.sources.images import load_image, open_images

params = snakemake.params


def figures(encoder):
    """Name, title and figure of each sample."""
    tables = read_runs(snakemake.input.rows, ATTRIBUTION, [(encoder.spec.name, name) for name in params.datasets])
    for ((_, dataset), table), images in zip(tables.items(), snakemake.input.images, strict=True):
        rows = table.to_pylist()
        with open_images(images) as source:
            for profile in params.profiles:
                of_profile = [row for row in rows if row["profile"] == profile]
                for number, item_id in enumerate(select_example_items(of_profile, params.most, params.seed), 1):
                    texts = [row for row in of_profile if row["item_id"] == item_id]
                    title = f"{encoder.spec.name}, {dataset}, {profile}: {item_id}"
                    figure = draw_encoder_example(encoder, texts, load_image(source, texts[0]["image"]), title)
                    yield f"{dataset}-{profile}-{number}", title, figure


with log_job(snakemake.log[0]), lease_device(0, snakemake.threads) as device:
    save_examples(snakemake.output.figures, figures(load_encoder(ModelSpec(**params.model), device)))
