"""What runs inside sandboxed processes: the zygote, sealed workers and one-shot forks.

This package is the only place where code, SQL and database images of a row are touched. It imports nothing of the
host's side, so that the process it lives in stays small and holds nothing worth stealing; the host talks to it by
frames (`awm_hub.runtime`).
"""
