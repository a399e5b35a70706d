"""FTP: download handler, session, directory listings."""
