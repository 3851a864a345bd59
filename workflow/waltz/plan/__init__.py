"""What a study asks for, and everything that follows from it: which models run on which data, with which files."""
