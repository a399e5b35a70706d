"""The hostile-server suite: every kind of broken or malicious answer, and how it must end.

test_hostile.py runs one real crawl over all of them. Each kind has a host of its own with an
ordinary page beside what is hostile, which must be fetched in any case.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import hostile_connections
import hostile_dns
import hostile_pages
import hostile_robots
import hostile_tls

#: Links of one page that the crawl is to follow, and redirects after one another.
MAX_LINKS = 8
MAX_REDIRECTS = 3

# One line each: the kind; how the URL of its page ends, once all retries are over (the names are
# those of webcrawl/net/outcomes.py, webcrawl/hosts/politeness/preconditions.py and
# webcrawl/hosts/robots/lookup.py); why the body of its Page is not whole, in the words of
# webcrawl/items.py, or "-"; and why that is right.
TABLE = """
silence                  first_byte_timeout    -           nothing comes at all
half-header              first_byte_timeout    -           a header that stops is no header
header-drip              first_byte_timeout    -           a byte now and then holds no worker
header-endless-lines     header_too_large      -           fields without end
header-10-mb-line        header_too_large      -           one field of 10 MB
header-10000-fields      header_too_large      -           small fields, but ten thousand
header-endless-status    header_too_large      -           a status line without end
header-endless-blanks    bad_answer            -           line ends without end, and no status line
header-endless-lf        bad_answer            -           the same in the fashion of Unix
header-cookies           http_200              -           two hundred cookies; none is kept
header-no-colon          http_200              -           a line that is no field is left out
header-space-colon       http_200              -           a space before the colon
header-nul               bad_answer            -           NUL is never legal in a field
header-folded            http_200              -           one field over two lines, as of old
header-8-bit             http_200              -           fields that are no text are kept as bytes
header-bare-lf           http_200              -           line ends RFC 9112, 2.2, lets us take
garbage                  bad_answer            -           noise is no HTTP
garbage-endless          bad_answer            -           noise without any line end
ssh-banner               bad_answer            -           another protocol on that port
http2-frames             bad_answer            -           HTTP/2 that nobody negotiated
http-0.9                 bad_answer            -           a body without a header
http-9.9                 http_200              -           read as HTTP/1.1, as browsers do
blank-lines              http_200              -           line ends before the status line
packets-of-a-byte        http_200              -           however it is cut
status-000               bad_answer            -           there is no such status
status-999               http_999              -           not registered, but in use
status-99999             bad_answer            -           five digits
status-negative          http_200              -           read as 200, as browsers do
status-words             http_200              -           read as 200, as browsers do
status-bytes             http_200              -           a reason phrase that is no text
status-line-only         connection_lost       -           hung up within the header
continue-flood           bad_answer            -           interim answers without end
continue-silence         first_byte_timeout    -           an interim answer, and no other
switching-protocols      first_byte_timeout    -           not asked for, and no answer follows
204-with-body            http_204              -           a body where none may be is not read
204-flood                http_204              -           a body without end where none may be
205-with-body            http_205              -           reset what
206-unasked              http_206              -           a part that nobody asked for
304-unasked              http_304              -           not modified since never
401-long-realm           http_401              -           a realm of 20 kB
401-endless-realm        header_too_large      -           a realm without end
429-far-future           http_429              -           Retry-After: 10^12 s is not waited for
429-negative             http_429              -           Retry-After: -5 s is no leave to hurry
429-year-9999            http_429              -           a date that nobody waits for either
429-garbage              http_429              -           Retry-After without a meaning
503-for-ever             http_503              -           given up after the retries
empty-reply              connection_lost       -           hung up instead of answering
reset-at-once            connection_lost       -           a reset instead of an answer
reset-in-header          connection_lost       -           a reset within the header
reset-in-body            http_200              disconnect  what came before the reset is kept
reset-on-connect         connection_lost       -           a reset instead of a greeting
speaks-first             bad_answer            -           an answer before the question
closed-port              connect_refused       -           nobody listens
deaf-port                connect_timeout       -           nobody accepts
length-too-long          http_200              disconnect  what came is kept, as browsers do
length-too-short         http_200              -           what is beyond it is not the page's
length-zero-flood        http_200              -           what is beyond it is not read
length-negative          bad_answer            -           where the body ends cannot be known
length-1e18              http_200              disconnect  the announcement is not believed
length-1e30              bad_answer            -           more than any length can be
length-two               bad_answer            -           two lengths of one body
length-words             bad_answer            -           no number
length-and-chunks        http_200              -           the chunks count (RFC 9112, 6.3)
transfer-unknown         http_200              -           kept as it came, up to the end
transfer-twice           http_200              -           chunked, and chunked again
chunk-size-words         http_200              disconnect  the part before it is kept
chunk-size-huge          http_200              disconnect  the part before it is kept
chunk-size-negative      http_200              disconnect  the part before it is kept
chunk-missing-last       http_200              disconnect  the chunks that came are kept
chunk-endless-extension  http_200              disconnect  framing without end is cut off
chunk-endless-trailers   http_200              disconnect  trailers without end are cut off
chunk-of-a-byte          http_200              -           a hundred thousand chunks
chunk-only-framing       timeout               -           fast enough, but never a body
body-endless             http_200              length      cut at PAGE_MAX_BYTES
body-endless-chunks      http_200              length      cut at PAGE_MAX_BYTES
body-never               too_slow              -           announced, and nothing of it comes
body-stalls              http_200              time        what came is kept
body-drip                http_200              time        below the least rate, what came is kept
body-stream              http_200              time        fast enough, and cut at DOWNLOAD_TIMEOUT
second-answer            http_200              -           of two answers the second is nobody's
second-answer-later      http_200              -           nor is it that of the next request
idle-flood               http_200              -           bytes into an idle connection
gzip-bomb                http_200              length      1 GB in 1 MB, cut at PAGE_MAX_BYTES
gzip-nested              http_200              -           ten layers; nobody packs that often
gzip-members             http_200              length      a hundred thousand empty parts
gzip-truncated           http_200              -           the part before its end is kept
gzip-wrong-checksum      http_200              -           the text is there all the same
gzip-that-is-not         http_200              -           plain text that says it is packed
brotli-bomb              http_200              -           256 MB in 48 kB, cut when decoded
zstd-bomb                http_200              -           1 GB in 32 kB, cut when decoded
zstd-window              http_200              -           a window of 2 GB is not allocated
deflate-garbage          http_200              -           left as it came
coding-unknown           http_200              -           left as it came
coding-100-times         http_200              -           left as it came
redirect-self            http_302              -           a loop of one
redirect-pair            http_302              -           a loop of two
redirect-endless         http_301              -           followed so far and no further
redirect-file            http_302              -           not of the web, not followed
redirect-data            http_302              -           not of the web, not followed
redirect-javascript      http_302              -           not of the web, not followed
redirect-25-kb           http_302              -           a URL beyond URL_MAX_LENGTH_BYTES
redirect-300-kb          header_too_large      -           a URL beyond the header's bound
redirect-injection       http_302              -           a line end ends the field
redirect-bare-cr         http_302              -           a bare CR ends the field, as in browsers
redirect-empty           http_302              -           nowhere to go
redirect-no-location     http_302              -           nowhere to go
redirect-two             http_302              -           the last of two is followed
redirect-proxy           http_305              -           a proxy of the server's choice
redirect-bad-utf8        http_302              -           bytes that are no text are escaped
redirect-bad-url         http_302              -           no URL can be made of it
redirect-bad-port        http_302              -           there is no such port
redirect-storm           http_200              -           its links redirect to one other host
redirect-victim          http_200              -           which has its pauses all the same
html-nested              http_200              -           a hundred thousand open tags
html-formatting          http_200              -           formatting to be opened ever anew
html-million-links       http_200              length      PAGE_MAX_LINKS of them are followed
html-null-bytes          http_200              -           NUL between the characters
html-long-attribute      http_200              -           an href of 1 MB
html-many-attributes     http_200              -           a hundred thousand on one tag
html-bad-utf16           http_200              -           surrogates without a partner
html-entities            http_200              -           what looks like entities, without end
html-comments            http_200              -           comments and quotes that never close
html-refresh-self        http_200              -           a page that loads itself again
html-base-garbage        http_200              -           links are resolved without it
html-long-type           http_200              -           a content type of 20 kB
html-bad-charset         http_200              -           a charset that is none
html-bad-links           http_200              -           hosts and ports that cannot be
robots-endless           robots_denied         -           its first 500 KiB count
robots-wildcards         http_200              -           500 KiB of stars, and nothing fits
robots-agents            http_200              -           thousands of names times rules
robots-long-line         http_200              -           a line of a megabyte
robots-binary            http_200              -           no rule can be read, so there is none
robots-html              http_200              -           a page has no rules
robots-loop              http_200              -           as if absent (RFC 9309, 2.3.1.2)
robots-port              http_200              -           no mail server is asked for rules
robots-elsewhere         robots_denied         -           the rules of the host it leads to
robots-rules             robots_denied         -           rules that forbid everything
robots-bomb              robots_denied         -           its first 500 KiB count, unpacked
robots-gzip-truncated    incomplete            -           half a robots.txt is no permission
robots-delay-huge        crawl_delay_too_long  -           30 years between two pages
robots-delay-digits      crawl_delay_too_long  -           a number of 400 digits
robots-delay-1e9         http_200              -           read as far as it is a number
robots-delay-nan         http_200              -           no number of seconds
robots-delay-inf         http_200              -           no number of seconds
robots-delay-negative    http_200              -           no number of seconds
robots-500               robots_unreachable    -           nothing is allowed (RFC 9309, 2.3.1.4)
robots-429               robots_unreachable    -           it asks us to come later
robots-404               http_200              -           no rules
robots-silence           first_byte_timeout    -           no answer is no permission
robots-drip              too_slow              -           half a robots.txt is no permission
robots-garbage           bad_answer            -           what is no HTTP is no permission
tls-untrusted            http_200              -           a crawler reads what browsers warn of
tls-expired              http_200              -           a crawler reads what browsers warn of
tls-not-yet              http_200              -           a crawler reads what browsers warn of
tls-wrong-name           http_200              -           a crawler reads what browsers warn of
tls-client-certificate   connection_lost       -           it wants to see ours; we have none
tls-1.0                  tls_failed            -           nothing newer is offered
tls-plain-http           tls_failed            -           no TLS on that port
tls-alert                tls_failed            -           refused
tls-warnings             tls_failed            -           warnings without end
tls-garbage              tls_failed            -           noise in the handshake
tls-huge-hello           tls_failed            -           a message of 16 MB in the handshake
tls-stall                connect_timeout       -           the ClientHello is never answered
tls-close                connection_lost       -           hung up in the handshake
tls-reset                connection_lost       -           reset in the handshake
tls-garbage-after        incomplete            -           half an answer, and noise right behind
tls-truncated            http_200              disconnect  the end without the closing alert
ftp-silence              first_byte_timeout    -           no greeting
ftp-garbage              bad_answer            -           no reply can be read
ftp-endless-greeting     bad_answer            -           lines without end
ftp-endless-line         bad_answer            -           a line without an end
ftp-greeting-drip        timeout               -           a greeting that does not come to its end
ftp-busy                 robots_unreachable    -           it asks us to come later
ftp-low-port             bad_answer            -           data ports are not those of services
ftp-bounce               connect_refused       -           nobody but the server itself is asked
gopher-silence           first_byte_timeout    -           no answer
gopher-nothing           http_200              -           empty
gopher-http              bad_answer            -           a web server on that port
gopher-endless           http_200              length      cut at PAGE_MAX_BYTES
dns-nxdomain             dns_not_found         -           no such name
dns-no-address           dns_not_found         -           a name without an address
dns-servfail             dns_failed            -           the server cannot say
dns-refused              dns_failed            -           the server does not want to say
dns-silence              dns_failed            -           the server says nothing
dns-alias-loop           dns_not_found         -           aliases of each other
dns-alias-chain          dns_not_found         -           aliases without end
dns-pointer-loop         dns_failed            -           a pointer to itself
dns-wrong-id             dns_failed            -           a forger who has to guess the id
dns-other-question       dns_failed            -           the answer to another question
dns-garbage              dns_failed            -           the right id, and noise
dns-cut-short            dns_failed            -           an answer without its end
dns-truncated            dns_failed            -           truncated over TCP, too
dns-many-records         dns_failed            -           three thousand addresses
dns-forged-extra         http_200              -           somebody else's address beside its own
dns-victim               http_200              -           which somebody else does not get
"""

#: Where the crawl is led to, on the same host unless it says otherwise, and how that ends.
LEADS_TO = {
    "redirect-pair": {"/hostile-2": "http_302"},
    "redirect-endless": {f"/hostile-{n + 1}": "http_301" for n in range(MAX_REDIRECTS)},
    "redirect-injection": {"/hostile-2": "http_302"},
    "redirect-bare-cr": {"/hostile-2": "http_302"},
    "redirect-two": {"/private/two": "robots_denied"},
    "redirect-bad-utf8": {"/private/%FF%FE": "robots_denied"},
    "redirect-storm": {f"/hostile-{n}": "http_307" for n in range(MAX_LINKS)},
    "redirect-victim": {f"/v/{n}": "http_404" for n in range(MAX_LINKS)},
    "html-million-links": {f"/l/{n}": "http_404" for n in range(MAX_LINKS)},
    "html-base-garbage": {"/l/1": "http_404"},
    "html-bad-links": {"http://a..b/": "dns_not_found", "http://xn--vdab/": "dns_not_found"},
}


class Place(enum.Enum):
    """What of a host is hostile; its second port has a robots.txt of its own."""

    PAGE = "the page /hostile"
    NAME = "its name"
    ROBOTS = "the robots.txt of its second port"
    TLS = "the certificate of its second port"
    HANDSHAKE = "every connection to its second port, where TLS is expected"
    CONNECTION = "every connection to its second port"
    CLOSED = "its second port, where nobody listens"
    DEAF = "its second port, where nobody accepts"


_ATTACKS = {
    Place.PAGE: hostile_pages.ATTACKS,
    Place.NAME: dict.fromkeys(hostile_dns.ATTACKS),
    Place.ROBOTS: hostile_robots.ATTACKS,
    Place.HANDSHAKE: hostile_tls.ATTACKS,
    Place.TLS: dict.fromkeys(hostile_tls.CERTIFICATES.keys() - hostile_tls.ATTACKS.keys()),
    Place.CONNECTION: hostile_connections.ATTACKS,
    Place.CLOSED: {"closed-port": None},
    Place.DEAF: {"deaf-port": None},
}


@dataclass(frozen=True)
class Kind:
    """A line of the table, and what is behind it."""

    name: str
    outcome: str
    cut: str
    why: str
    place: Place
    attack: object
    leads_to: object = field(default_factory=dict)
    certificate: object = None

    @property
    def scheme(self):
        """The scheme under which what is hostile is asked for."""
        if self.place in {Place.TLS, Place.HANDSHAKE}:
            return "https"
        first = self.name.partition("-")[0]
        return first if first in {"ftp", "gopher"} else "http"


def _kinds():
    places = {name: place for place, attacks in _ATTACKS.items() for name in attacks}
    kinds = []
    for line in TABLE.strip().splitlines():
        name, outcome, cut, why = line.split(maxsplit=3)
        place = places.pop(name)
        kinds.append(
            Kind(
                name=name,
                outcome=outcome,
                cut="" if cut == "-" else cut,
                why=why,
                place=place,
                attack=_ATTACKS[place][name],
                leads_to=LEADS_TO.get(name, {}),
                certificate=hostile_tls.CERTIFICATES.get(name),
            )
        )
    assert not places, f"not in the table: {sorted(places)}"
    return tuple(kinds)


KINDS = _kinds()
