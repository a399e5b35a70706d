"""Kinds of ordinary sites whose pages have one title and nearly one text, and are documents all."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

# Thirty words that are in no page; the other names of a site are these backwards.
NAMES = [
    *("alder", "ash", "aspen", "bamboo", "beech", "birch", "cedar", "cherry", "cypress", "ebony"),
    *("elder", "fir", "gorse", "hawthorn", "hazel", "hemlock", "holly", "juniper", "larch"),
    *("laurel", "linden", "maple", "myrtle", "oak", "olive", "pine", "poplar", "rowan", "spruce"),
    "yew",
]
# Where pages of a kind are. A name is the only thing that tells their URLs apart.
PATHS = ("/{name}", "/show/{name}.html", "/en/library/{name}/")

_FRAME = (
    "<html><head><title>Library</title>{head}</head><body><ul><li><a href=/>Home</a><li>"
    "<a href=/about>About us</a><li><a href=/contact>Contact</a></ul><h1>Library</h1>{main}"
    "<p>All that is here may be used by everybody, and nothing is asked for in return."
    "<p>Questions are answered by the people at the desk on all days of the week.</body></html>"
)
_SCRIPT = "<script src=/app.js></script>"

# By what a reader gets: the part of the page that is its own. Where nothing of it is seen without a
# browser the file behind it, or the script, has it.
KINDS = {
    "download": "<p>The file is here now.<p><a href=/files/{name}-1.7.zip>Get it</a>",
    "download by name": "<p>The file is here now.<p><a href=/files/{other}>Get it</a>",
    "download of its own name": "<p>Here it is, as you wished.<p><a href=/files/{name}>Get it</a>",
    "download with an extension": "<p>Here it is.<p><a href=/files/{name}.tar.gz>Get it</a>",
    "download by a script": "<p>Here it is.<p><a href='/get.php?file={name}'>Get it</a>",
    "download by number": "<p>Here it is, as you wished.<p><a href=/get?id={n}>Get it</a>",
    "download by key": "<p>Here it is, as you wished.<p><a href=/get/{key}>Get it</a>",
    "download by digest": "<p>Here it is, as you wished.<p><a href=/blob/{md5}>Get it</a>",
    "download by button": "<p>Here it is.<form action=/get/{key}><button>Get it</button></form>",
    "download by posted field": "<p>Here it is.<form method=post action=/get><input type=hidden "
    "name=file value={key}><button>Get it</button></form>",
    "download that begins by itself": "<meta http-equiv=refresh content='3; url=/files/{key}.zip'>"
    "<p>The file that you have chosen comes in a moment.",
    "download from a mirror": "<p>Choose one.<ul><li><a href=//a.test/{key}.iso>One</a>"
    "<li><a href=//b.test/{key}.iso>Two</a></ul>",
    "magnet link": "<p>Here it is.<p><a href='magnet:?xt=urn:btih:{md5}'>Get it</a>",
    "tag with one post": "<p>Posts with this tag:<p><a href=/posts/{n}-{key}>Read on</a>",
    "tag with one post of its name": "<p>Posts with this tag:<p><a href=/posts/{name}>Read on</a>",
    "tag by date": "<p>Posts with this tag:<p><a href=/2026/11/2026-11-{n}>Read on</a>",
    "archive by month": "<p>What was written then:<p><a href=/posts/{n}>Read on</a>",
    "short link": "<p>It is elsewhere.<p><a href=https://{other}.test/{key}>Go</a>",
    "mail address": "<p>Write to us at once.<p><a href=mailto:{other}@a.test>Write</a>",
    "phone number": "<p>Call the one who is in charge.<p><a href=tel:+49555{n}>Call</a>",
    "place on a map": "<p>Here is where to find us.<p><a href=geo:52.{n},13.{n}>On the map</a>",
    "viewer": "<p>The document is below.<iframe src='/viewer?file={name}.pdf'></iframe>",
    "viewer by key": "<p>The document is below.<iframe src='/viewer?id={key}'></iframe>",
    "viewer with an object": "<p>It is below.<object data='/view?doc={key}'></object>",
    "viewer with an embed": "<p>It is below.<embed src='/view?doc={key}' type=application/pdf>",
    "page as an image": "<p>As it looks.<img src='/scan?page={key}&amp;w=900' alt=''>",
    "gallery": "<p>Click on one to enlarge it.<a href=/photo/{key}><img src='/t?i={key}'></a>",
    "gallery by srcset": "<p>Pictures of last year.<img src=/blank.gif srcset='/i/{key}.jpg 2x'>",
    "gallery loaded late": "<p>Pictures of last year.<img src=/blank.gif data-src=/i/{key}.jpg>",
    "gallery without scripts": "<p>As it was.<noscript><img src=/i/{key}.jpg></noscript>",
    "gallery by style": "<p>Pictures of last year.<style>main{{background:url(/i?{key})}}</style>",
    "gallery by attribute": "<p>Pictures of last year.<div style='background:url(/i?{key})'></div>",
    "picture of two sizes": "<p>As it was.<picture><source srcset=/i/{key}.webp><img></picture>",
    "drawing": "<p>As it was drawn.<svg><path d='M{n} 2 L7 {n} Z'></path></svg>",
    "chart": "<p>How it went this year.<div class=bar style='width:{n}%'></div>",
    "meter": "<p>How much of it is done by now.<meter value={n} max=99></meter>",
    "video": "<p>Press the button to begin.<video src=/v/{key}.mp4 controls></video>",
    "video with sources": "<p>Press to begin.<video><source src='/v?id={key}'></video>",
    "video by poster": "<p>Press the button to begin.<video poster='/p?{key}'></video>",
    "audio": "<p>Press the button to listen.<audio src='/a?track={key}' controls></audio>",
    "player from elsewhere": "<p>Press to begin.<iframe src='https://play.test/?v={key}'></iframe>",
    "player by script": "<p>Press to begin.<div id=player></div><script>play('{key}')</script>",
    "player by attribute": "<p>Press to begin.<div class=player data-video={key}></div>" + _SCRIPT,
    "player by social card": "<p>Press it.<meta property=og:video content=/v/{key}>",
    "table of checksums": "<p>Compare it.<table><tr><td>{name}-1.7.zip<td>{sha}</table>",
    "one checksum": "<p>Compare what you have with this, which is right: <code>{md5}</code>",
    "short checksums": "<p>Compare them.<pre>{crc} one.bin\n{crc2} two.bin</pre>",
    "release": "<p>The newest version is {key}, which is for all systems that are in use.",
    "part of a catalogue": "<p>The number of the part is {code}: give it when you order, please.",
    "voucher": "<p>The word for the till is {code}, which is good until the end of the year.",
    "price": "<p>It costs {n}.50 and is sent on the same day, if you order in the morning.",
    "licence key": "<p>Here is the key.<input readonly value={key}>",
    "page to be shared": "<p>Share it with friends.<input readonly value=https://a.test/s/{key}>",
    "quiz": "<p>Which is right?<label><input type=radio name=q value={key}>This one</label>",
    "choice": "<p>Choose one of them.<select><option value={key}>First</option></select>",
    "shell of an application": "<p>Loading, please wait.<div id=root></div>" + _SCRIPT,
    "shell of data": "<div id=it></div><script type=application/json>{{'id':'{key}'}}</script>",
    "shell with its name": "<p>Loading, please wait.<script>load('{name}')</script>",
    "shell with a file of data": "<p>Loading.<main data-from=/api/{name}.json></main>" + _SCRIPT,
    "shell with a custom element": "<library-page key={key}></library-page>" + _SCRIPT,
    "shell with its own heading": "<h2>{name}</h2><ul id=posts></ul>" + _SCRIPT,
    "shell with a number": "<div class=app>{name}</div><script nonce={crc}>go()</script>",
    "shell with a card": "<meta property=og:url content=/show/{name}><i>{name}</i>" + _SCRIPT,
    "shell that names a script": "<div id=gist></div><script src=/gist/{crc}.js></script>",
    "shell with a login": '<form><input type="password"></form><div id=root></div>' + _SCRIPT,
    "download beside a login": '<form action=/in><input type="password"></form><p>Here it is.'
    "<p><a href=/files/{key}.zip>Get it</a>",
    "form to fill in": "<p>Tell us.<form action=/say/{key}><textarea></textarea></form>",
    "quotation": "<blockquote cite=https://b.test/{key}>To be, or not to be.</blockquote>",
    "structured data": "<script type=application/ld+json>{{'sku':'{code}','n':{n}}}</script>"
    "<p>One of the things that we sell, as long as there are any.",
}  # fmt: skip


class SoundPage(NamedTuple):
    """A page of a sound site, and the paths of files of the site that it leads to."""

    path: str
    body: bytes


def pages_of(kind, path):
    """The thirty pages of *kind*, at *path*."""
    for number, name in enumerate(NAMES, 11):
        sha = hashlib.sha256(name.encode()).hexdigest()
        values = {
            "name": name,
            "other": NAMES[-number % len(NAMES)][::-1],
            "n": number,
            "key": f"{name[:2]}{sha[:9]}{number}",
            "code": f"ZX{number}QW{number + 7}",
            "md5": sha[:32],
            "sha": sha,
            "crc": sha[:8],
            "crc2": sha[8:16],
        }
        main = KINDS[kind].format(**values)
        yield SoundPage(path.format(name=name), _FRAME.format(head="", main=main).encode())
