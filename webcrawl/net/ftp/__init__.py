"""FTP: download handler, session, directory listings."""

from webcrawl.net.ftp.handler import FtpDownloadHandler

__all__ = ["FtpDownloadHandler"]
