"""The judge: mechanism only. Importing the package imports nothing else."""
