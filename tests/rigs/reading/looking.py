"""What a directory holds, so that a test can tell that looking has changed nothing."""


def contents(path):
    """Every file and directory below *path*, with its bytes and the time of its last change."""
    return {
        one: (one.read_bytes() if one.is_file() else b"", one.stat().st_mtime_ns)
        for one in path.rglob("*")
    }
