# nobody
