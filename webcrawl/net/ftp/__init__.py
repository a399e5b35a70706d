"""FTP: the download handler, the session with a server, and directory listings."""

from webcrawl.net.ftp.handler import FtpDownloadHandler
