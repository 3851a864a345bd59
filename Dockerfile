# All that a study needs, in the versions of constraints.txt: docs/how-to/running-parts.md says how to run it.
FROM python:3.11-slim
# Snakemake imports GitPython, which needs git.
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY . /opt/waltz
RUN pip install --no-cache-dir -c /opt/waltz/constraints.txt -e "/opt/waltz[gpu,slurm,vision]"
# Results lie here; mount a folder.
WORKDIR /work
ENTRYPOINT ["snakemake", "--snakefile", "/opt/waltz/Snakefile"]
CMD ["--cores", "2"]
