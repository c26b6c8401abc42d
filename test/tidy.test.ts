// The house rules that a compiler cannot check, read off the source text: which folder may import which, sizes,
// names, dead files, dependencies, and documents without dead links. A rule that fails lists every offender.
// The readers are plain patterns that rely on the formatter's output, not a parser.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";

const FILE_LINES_MAX = 400;
const TEST_LINES_MAX = 500;
const FUNCTION_LINES_MAX = 70;
const LONG_FUNCTIONS_SHARE_MAX = 0.04;
const README_LINES_MAX = 150;

/** What each folder of src may import besides itself; `type x` means only types of x. Files in src itself wire all. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  store: ["core"],
  engines: ["core", "store"],
  wire: ["core"],
  client: ["core", "type wire"],
  service: ["core", "store"],
  // A second statement of the rules must not lean on the first.
  verify: [],
  faces: ["core", "store", "service", "wire", "client", "verify"],
};
/** Folders that must run anywhere name the only packages (and node: modules) they may use. */
const MAY_USE: Record<string, readonly string[]> = {
  core: [],
  wire: ["typebox"],
  client: [],
  // Loaded only where a thread is asked for.
  "client/node": ["node:worker_threads"],
};

const ENGINE_NAME = /sqlite|postgres|\betcd|["'`]git:|["'`]memory:?["'`]|\b\w*memory(?:store|engine)\b/i;
const MAY_NAME_ENGINES = /^src\/(?:engines\/|faces\/cli\/|serve\.ts|main\.ts|(?:.*\/)?config\b)/;
const EMPTY_NAMES = new Set(["util", "utils", "helper", "helpers", "common", "types", "manager"]);

const root = fileURLToPath(new URL("../../", import.meta.url));
const manifest = JSON.parse(read("package.json"));
const lock = JSON.parse(read("package-lock.json"));
const src = list("src", ".ts").map(source);
const code = src.filter((file) => !file.isTest);
const everything = [...src, ...["test", "bench"].flatMap((dir) => list(dir, ".ts")).map(source)];
const scripts = list("scripts", ".mjs").map(source);
const entries = entryFiles();

describe("imports", () => {
  test("each folder imports only what the layout allows", () => {
    const offenders = code.flatMap((file) =>
      file.imports.filter((used) => !isAllowed(file.path, used)).map((used) => `${file.path} → ${used.from}`),
    );
    assertNone(offenders);
  });

  test("no program file imports a test", () => {
    const tests = new Set(src.filter((file) => file.isTest).map((file) => file.path));
    const offenders = code.filter((file) => file.imports.some((used) => tests.has(target(file.path, used))));
    assertNone(paths(offenders));
  });

  test("engines are named only where they are chosen", () => {
    const offenders = code
      .filter((file) => !MAY_NAME_ENGINES.test(file.path))
      .flatMap((file) => lines(file, ENGINE_NAME));
    assertNone(offenders);
  });

  test("every file is reached from the program, a package entry or a worker", () => {
    const byPath = new Map(code.map((file) => [file.path, file]));
    const reached = new Set<string>();
    const visit = (path: string): void => {
      const file = byPath.get(path);
      if (file === undefined || reached.has(path)) return;
      reached.add(path);
      for (const used of file.imports) visit(target(path, used));
    };
    for (const entry of entries) visit(entry);
    assertNone(paths(code.filter((file) => !reached.has(file.path))));
  });
});

describe("files", () => {
  test(`no file is over ${FILE_LINES_MAX} lines, no test over ${TEST_LINES_MAX}`, () => {
    const limit = (file: Source) => (file.isTest ? TEST_LINES_MAX : FILE_LINES_MAX);
    const offenders = everything.filter((file) => lineCount(file.text) > limit(file));
    assertNone(offenders.map((file) => `${file.path}: ${lineCount(file.text)}`));
  });

  test(`under ${LONG_FUNCTIONS_SHARE_MAX * 100} % of functions are over ${FUNCTION_LINES_MAX} lines`, (t) => {
    const all = code.flatMap((file) => functions(file.bare).map((found) => ({ ...found, path: file.path })));
    const long = all.filter((found) => found.lines > FUNCTION_LINES_MAX);
    const listed = long.map((found) => `${found.path}:${found.at} has ${found.lines} lines`);
    for (const line of listed) t.diagnostic(line);
    assert.ok(all.length > 0 && long.length / all.length < LONG_FUNCTIONS_SHARE_MAX, listed.join("\n"));
  });

  test("each opens with a comment that says what it is for", () => {
    const opens = (file: Source) => /^(?:#!.*\n)?\s*\/[/*]/.test(file.text);
    assertNone(paths([...code, ...scripts].filter((file) => !opens(file))));
  });

  test("none has a name that says nothing", () => {
    const words = (path: string) => posix.basename(path).split(/[-.]/);
    const offenders = everything.filter((file) => words(file.path).some((word) => EMPTY_NAMES.has(word)));
    assertNone(paths(offenders));
  });

  test("none only re-exports others, but for the package's entries", () => {
    const reExport = /\bexport\s+(?:type\s+)?(?:\*(?:\s+as\s+\w+)?|\{[^}]*\})\s+from\s+"[^"]+";?/g;
    const isBarrel = ({ code }: Source) =>
      code.search(reExport) >= 0 && code.replace(reExport, "").trim() === "";
    const offenders = everything.filter((file) => !entries.has(file.path) && isBarrel(file));
    assertNone(paths(offenders));
  });
});

describe("text", () => {
  const all = [...everything, ...scripts];
  test("no default exports", () => {
    assertNone(all.flatMap((file) => lines(file, /\bexport\s+default\b|\bas\s+default\b/, "bare")));
  });
  test("nothing left to do later", () => {
    assertNone(all.flatMap((file) => lines(file, /\b(?:TO[D]O|FIX[M]E)\b/, "text")));
  });
  test("no test skipped or singled out", () => {
    assertNone(all.flatMap((file) => lines(file, /\.(?:skip|only|todo)\(/, "bare")));
  });
  test("no any, no silenced compiler", () => {
    const anyType = all.flatMap((file) => lines(file, /(?:[:<|&,]\s*|\bas\s+)any\b(?!\s*[:(])/, "bare"));
    assertNone([...anyType, ...all.flatMap((file) => lines(file, /@ts-(?:ignore|nocheck)/, "text"))]);
  });
});

describe("dependencies", () => {
  const locked = Object.entries<Locked>(lock.packages);

  test("the lock file names no host but the public registry", () => {
    const strange = locked.filter(
      ([, { resolved = "" }]) => !/^$|^https:\/\/registry\.npmjs\.org\//.test(resolved),
    );
    assertNone(strange.map(([path, { resolved }]) => `${path}: ${resolved}`));
  });

  test("none that users install needs an install script", () => {
    // One that ships its binaries inside needs none, though it may have one for platforms that it has no binary for.
    const shipsBinaries = (path: string): boolean => existsSync(join(root, path, "prebuilds"));
    const offenders = locked.filter(
      ([path, entry]) => entry.hasInstallScript && !entry.dev && !shipsBinaries(path),
    );
    assertNone(offenders.map(([path]) => path));
  });

  test("each is imported by the program", () => {
    const imported = new Set(code.flatMap((file) => file.imports.map((used) => packageName(used.from))));
    // Not imported: it holds back what Fastify brings, for those who install the package.
    imported.add("light-my-request");
    const unused = Object.keys(manifest.dependencies ?? {}).filter((name) => !imported.has(name));
    assertNone(unused);
  });

  test("each development dependency is used by a script, a test or the configuration", () => {
    const configuration = ["biome.json", "tsconfig.json"].map(read).join("\n");
    const texts = [
      configuration,
      JSON.stringify(manifest.scripts),
      ...[...everything, ...scripts].map((file) => file.text),
    ];
    const isUsed = (name: string) =>
      name.startsWith("@types/")
        ? configuration.includes(`"${name.slice("@types/".length)}"`)
        : texts.some((text) => mentions(text, name));
    assertNone(Object.keys(manifest.devDependencies ?? {}).filter((name) => !isUsed(name)));
  });

  test("each is a decision that docs/decisions explains", () => {
    const decisions = list("docs/decisions", ".md").map(read).join("\n");
    const names = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
    assertNone(names.filter((name) => !mentions(decisions, name)));
  });
});

describe("documents", () => {
  const documents = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...list("docs", ".md")];

  test(`the README has at most ${README_LINES_MAX} lines`, () => {
    assert.ok(lineCount(read("README.md")) <= README_LINES_MAX);
  });

  test("the changelog has this version", () => {
    const headings = read("CHANGELOG.md")
      .split("\n")
      .filter((line) => line.startsWith("## "));
    assert.ok(
      headings.some((line) => mentions(line, manifest.version)),
      `${manifest.version} in ${headings}`,
    );
  });

  test("no relative link is dead", () => {
    const dead = documents.flatMap((path) =>
      links(read(path))
        .filter((link) => isDead(path, link))
        .map((link) => `${path}: ${link}`),
    );
    assertNone(dead);
  });
});

describe("the readers above", () => {
  test("blank comments, strings and patterns, and keep lines", () => {
    const text = 'a(); // any\n/* any\n*/ const b = "any" + `any` + (/any"/.test(c) ? 1 / 2 : 3 / 4);';
    assert.equal(blank(text, true).includes("any"), false);
    assert.equal(blank(text, true).split("\n").length, 3);
    assert.ok(blank(text, false).includes('"any"'));
    assert.ok(blank(text, true).endsWith(".test(c) ? 1 / 2 : 3 / 4);"));
  });

  test("find functions, not blocks", () => {
    const text =
      "function a(b: () => void): Promise<{ c: number }> {\n  if (b) {\n  }\n}\nclass D {\n  e(f = g()): void {\n  }\n}\n" +
      "for await (const h of i) {\n}\nconst j = { k: async () => {\n } };\nfunction l(\n m: { n: string },\n): x is Y {\n}";
    assert.deepEqual(functions(text), [
      { at: 1, lines: 4 },
      { at: 6, lines: 2 },
      { at: 11, lines: 2 },
      { at: 15, lines: 2 },
    ]);
  });

  test("find imports and tell types", () => {
    const text =
      'import type { A } from "./a.js";\nimport { type B, type C } from "b";\nimport {\n  type D,\n  e,\n} from "../e.js";\n' +
      'import "node:f";\nconst g = await import("./g.js");\nnew Worker(new URL("./h.js", import.meta.url));\nexport * from "./i.js";';
    assert.deepEqual(
      imports(text)
        .map(({ from, typeOnly }) => `${from}${typeOnly ? " type" : ""}`)
        .sort(),
      ["../e.js", "./a.js type", "./g.js", "./h.js", "./i.js", "b type", "node:f"],
    );
  });
});

interface Import {
  from: string;
  typeOnly: boolean;
}

interface Source {
  path: string;
  text: string;
  /** Without comments. */
  code: string;
  /** Without comments, strings and patterns. */
  bare: string;
  imports: Import[];
  /** A test, or a suite that tests share. */
  isTest: boolean;
}

interface Locked {
  resolved?: string;
  dev?: boolean;
  hasInstallScript?: boolean;
}

function assertNone(offenders: readonly string[]): void {
  assert.ok(offenders.length === 0, `${offenders.length}:\n${offenders.join("\n")}`);
}

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

function list(dir: string, ending: string): string[] {
  if (!existsSync(join(root, dir))) return [];
  const names = readdirSync(join(root, dir), { recursive: true, encoding: "utf8" });
  return names
    .filter((name) => name.endsWith(ending))
    .map((name) => posix.join(dir, name))
    .sort();
}

function source(path: string): Source {
  const text = read(path);
  const code = blank(text, false);
  const found = imports(code);
  const isTest =
    path.startsWith("test/") || path.endsWith(".test.ts") || found.some(({ from }) => from === "node:test");
  return { path, text, code, bare: blank(text, true), imports: found, isTest };
}

/** Spaces in place of comments, and of strings and patterns if asked. Division has a space after it, a pattern never. */
function blank(text: string, alsoStrings: boolean): string {
  const token =
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`|\/(?![*/\s=])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/g;
  return text.replace(token, (found) =>
    alsoStrings || found.startsWith("//") || found.startsWith("/*") ? found.replace(/[^\n]/g, " ") : found,
  );
}

function imports(code: string): Import[] {
  const named = [...code.matchAll(/\b(?:import|export)\s+(type\s+)?([^;"'`()]*?)\s*\bfrom\s+"([^"]+)"/g)];
  const others = code.matchAll(
    /\bimport\s+"([^"]+)"|\b(?:import|require)\(\s*"([^"]+)"|\bnew URL\(\s*"(\.[^"]+)",\s*import\.meta\.url/g,
  );
  const onlyTypes = (names: string) => /^\{\s*(?:type\s+[^,}]+,?\s*)+\}$/.test(names);
  return [
    ...named.map(([, type, names = "", from = ""]) => ({
      from,
      typeOnly: type !== undefined || onlyTypes(names),
    })),
    ...[...others].map(([, a, b, c]) => ({ from: a ?? b ?? c ?? "", typeOnly: false })),
  ];
}

/** The file that a relative import means, as a path from the root; a package's name stays as it is. */
function target(path: string, { from }: Import): string {
  return from.startsWith(".") ? posix.join(posix.dirname(path), from).replace(/\.js$/, ".ts") : from;
}

function isAllowed(path: string, used: Import): boolean {
  // Commands start servers and open data files: they wire, as the files in src itself do.
  if (path.startsWith("src/faces/cli/")) return true;
  const [, layer = "", folder = "", deeper] = path.split("/");
  const allowed = MAY_IMPORT[layer];
  if (allowed === undefined) return path.split("/").length === 2; // src/x.ts wires all; an unknown folder nothing
  if (!used.from.startsWith("."))
    return (MAY_USE[`${layer}/${folder}`] ?? MAY_USE[layer])?.includes(packageName(used.from)) ?? true;
  const [top, otherLayer = "", otherFolder] = target(path, used).split("/");
  if (top !== "src") return false;
  if (otherLayer !== layer)
    return allowed.includes(otherLayer) || (used.typeOnly && allowed.includes(`type ${otherLayer}`));
  return layer !== "engines" || deeper === undefined || otherFolder === folder; // an engine never another engine
}

function packageName(from: string): string {
  return from
    .split("/")
    .slice(0, from.startsWith("@") ? 2 : 1)
    .join("/");
}

/** The source files behind package.json's bin and exports. */
function entryFiles(): Set<string> {
  const named: string[] =
    JSON.stringify([manifest.bin, manifest.exports]).match(/dist\/src\/[^"]+\.js/g) ?? [];
  return new Set([
    "src/main.ts",
    ...named.map((file) => file.replace(/^dist\//, "").replace(/\.js$/, ".ts")),
  ]);
}

/** Every function with a braced body: the line it opens on and how many lines it takes. */
function functions(bare: string): { at: number; lines: number }[] {
  const open: { at: number; isFunction: boolean }[] = [];
  const found: { at: number; lines: number }[] = [];
  let line = 1;
  for (let index = 0; index < bare.length; index += 1) {
    const char = bare[index];
    if (char === "\n") line += 1;
    else if (char === "{") open.push({ at: line, isFunction: opensFunction(bare.slice(0, index)) });
    else if (char === "}") {
      const block = open.pop();
      if (block?.isFunction) found.push({ at: block.at, lines: line - block.at + 1 });
    }
  }
  return found.sort((a, b) => a.at - b.at);
}

/** Does a brace after this text open a function's body, rather than a block, an object or a type? */
function opensFunction(before: string): boolean {
  const text = before.slice(-2000).trimEnd();
  if (text.endsWith("=>")) return true;
  const head = text.replace(/\)\s*:\s*(?:Promise<[^()]*>|[\w\s.<>,[\]|&?]*[\w>\]])$/, ")");
  if (!head.endsWith(")")) return false;
  let depth = 0;
  let at = head.length;
  do {
    at -= 1;
    if (head[at] === ")") depth += 1;
    if (head[at] === "(") depth -= 1;
  } while (depth > 0 && at > 0);
  return !/\b(?:if|for|while|switch|catch|with|await)\s*$/.test(head.slice(0, at));
}

function lines(file: Source, pattern: RegExp, part: "text" | "code" | "bare" = "code"): string[] {
  const shown = file.text.split("\n");
  return file[part]
    .split("\n")
    .flatMap((line, index) =>
      pattern.test(line) ? [`${file.path}:${index + 1} ${shown[index]?.trim()}`] : [],
    );
}

function paths(files: readonly Source[]): string[] {
  return files.map((file) => file.path);
}

function lineCount(text: string): number {
  return text.trimEnd().split("\n").length;
}

/** Is the name in the text as a word of its own? `abc` is not in `abc-def`. */
function mentions(text: string, name: string): boolean {
  const literal = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`(?<![\\w@-])${literal}(?![\\w-])`).test(text);
}

function proseOf(markdown: string): string {
  return markdown.replace(/^(```+|~~~+)[\s\S]*?^\1/gm, "").replace(/`[^`\n]*`/g, "code");
}

function links(markdown: string): string[] {
  const found = proseOf(markdown).matchAll(/\]\(\s*([^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)/gm);
  return [...found]
    .map(([, inline, reference]) => inline ?? reference ?? "")
    .filter((link) => !/^[a-z]+:/.test(link));
}

function isDead(path: string, link: string): boolean {
  const [file = "", anchor] = link.split("#");
  const to = file === "" ? path : posix.join(dirname(path), decodeURIComponent(file));
  if (!existsSync(join(root, to))) return true;
  return anchor !== undefined && to.endsWith(".md") && !anchors(read(to)).has(anchor);
}

/** GitHub's anchors of the headings. */
function anchors(markdown: string): Set<string> {
  const outsideFences = markdown.replace(/^(```+|~~~+)[\s\S]*?^\1/gm, "");
  const headings = [...outsideFences.matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .replace(/\s/g, "-"),
    ),
  );
}
