"""Commands for maintainers, run from the checkout, such as `python -m tools.train_scene_models`.

They renew files that the repository contains: trained scene models, pages of findings, the audit of
the paper values. No study needs them, so that the installed package lacks them.
"""
