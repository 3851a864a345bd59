"""Study files, and the plan that is derived from a study: model runs, data sets and files."""
