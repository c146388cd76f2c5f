"""Renders results. One module a format, all from `grader.result.Result`."""
