"""Study files and the plan that follows from one: model runs, data sets and files."""
