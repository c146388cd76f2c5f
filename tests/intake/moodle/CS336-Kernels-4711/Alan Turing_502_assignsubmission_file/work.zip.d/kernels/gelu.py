# from a zip
