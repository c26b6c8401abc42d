// The code blocks of the README and docs/ run as a reader would paste them, against a real server, so that no
// example can rot. The convention for authors:
// - ```sh and ```ts blocks run; ```sh norun: <reason> does not. A block that only installs or starts is not run.
// - The sh blocks of one document share a directory and their variables. HOLDFAST_URL, HOLDFAST_TOKEN (a worker)
//   and HOLDFAST_ADMIN_TOKEN are set, `holdfast` is on the PATH, and 127.0.0.1:4280 means the test's server.
// - A ```json or ```text block right after such a block is its output. JSON: every field shown is in the last JSON
//   printed, with the same value, unless the value shown is a string with `...` (then only the type counts) or a
//   `_ms` number (then within 10 s). Text: `...` stands for anything in a line, on a line of its own for any lines.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { adminToken, mainFile, type Server, startServer, temporaryDir } from "./server.js";

const BLOCK_TIMEOUT_MS = 60_000;
const DURATION_SLACK_MS = 10_000;
const README_RUN_BLOCKS_MIN = 3;
const LANGUAGES_TO_RENAME = /^(?:bash|shell|console|zsh|typescript|js|javascript|mjs)$/;

const root = fileURLToPath(new URL("../../", import.meta.url));
const documents = [
  "README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name))
    .sort(),
].map((path) => ({ path, blocks: blocksOf(readFileSync(join(root, path), "utf8")) }));

for (const { path, blocks } of documents) {
  const runnable = blocks.filter(isRunnable);
  if (runnable.length === 0) continue;
  test(path, async (t) => {
    await using server = await startServer();
    const place = preparePlace(server);
    for (const block of runnable) {
      await t.test(`${path}:${block.line} ${block.language}`, async () => {
        const output =
          block.language === "sh" ? await runShell(block, place) : await runTypeScript(block, place);
        if (block.output !== undefined)
          assertOutput(block.output, output.replaceAll(place.address, "127.0.0.1:4280"));
      });
    }
  });
}

test(`the README has at least ${README_RUN_BLOCKS_MIN} blocks that run`, () => {
  const runnable = documents[0]?.blocks.filter(isRunnable) ?? [];
  assert.ok(runnable.length >= README_RUN_BLOCKS_MIN, `${runnable.length}`);
});

test("every code block runs, or says why it does not", () => {
  const offenders = documents.flatMap(({ path, blocks }) =>
    blocks.flatMap((block) => {
      const where = `${path}:${block.line}`;
      if (LANGUAGES_TO_RENAME.test(block.language))
        return [`${where}: tag it sh or ts, not ${block.language}`];
      if (/^norun\b/.test(block.note) && !/^norun: *\S/.test(block.note))
        return [`${where}: norun needs a reason`];
      return [];
    }),
  );
  assert.deepEqual(offenders, []);
});

describe("the reader and the comparison", () => {
  const fence = "```";
  test("find blocks, their notes and their output", () => {
    const text = `${fence}sh\na\n${fence}\n\n${fence}json\n{}\n${fence}\n- x\n  ${fence}ts norun: why\n  b\n  ${fence}\ny\n${fence}text\nz\n${fence}\n`;
    assert.deepEqual(
      blocksOf(text).map(({ line, language, note, text, output }) => [
        line,
        language,
        note,
        text,
        output?.text,
      ]),
      [
        [1, "sh", "", "a", "{}"],
        [5, "json", "", "{}", undefined],
        [9, "ts", "norun: why", "b", undefined],
        [13, "text", "", "z", undefined],
      ],
    );
  });

  test("know a block that only installs or starts", () => {
    assert.ok(installsOnly("# from a clone\ngit clone https://x/y && cd y\nnpm ci && npm start"));
    assert.ok(!installsOnly("npm ci && curl localhost:4280/health"));
  });

  test("take the last JSON printed", () => {
    assert.deepEqual(lastJson('{"a":1}{"b":{"c":[2]}}\n'), { b: { c: [2] } });
    assert.deepEqual(lastJson('made it\n[\n  {"a": 1}\n]\n'), [{ a: 1 }]);
    assert.equal(lastJson("{}\nnull\n"), null);
  });

  test("compare what is shown, and only that", () => {
    const actual = { a: "x", b: 1, c: { d: null }, e: [1, 2], f_ms: 59_990, more: true };
    assert.deepEqual(differences({ a: "y...", b: 1, c: { d: null }, e: [1, 2], f_ms: 60_000 }, actual), []);
    for (const wrong of [{ a: "y" }, { b: "1..." }, { c: { d: {} } }, { e: [1] }, { f_ms: 1 }, { g: null }]) {
      assert.equal(differences(wrong, actual).length, 1, JSON.stringify(wrong));
    }
  });

  test("compare text with wildcards", () => {
    assert.match("id abc (1)\nx\ny\nend", textPattern("id ... (1)\n...\nend"));
    assert.doesNotMatch("id abc (2)\nend", textPattern("id ... (1)\nend"));
  });
});

interface Block {
  line: number;
  language: string;
  /** What follows the language on the fence. */
  note: string;
  text: string;
  /** The json or text block that follows with only blank lines between. */
  output?: Block;
}

/** Where the blocks of one document run. */
interface Place {
  dir: string;
  address: string;
  env: NodeJS.ProcessEnv;
  stateFile: string;
}

function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  const fences = /^([ \t]*)(`{3,})[ \t]*([^\s`]*)[ \t]*([^\n`]*)\n([\s\S]*?)^[ \t]*\2[ \t]*$/gm;
  let previous: { block: Block; end: number } | undefined;
  for (const found of markdown.matchAll(fences)) {
    const [whole, indent = "", , language = "", note = "", body = ""] = found;
    const line = markdown.slice(0, found.index).split("\n").length;
    const text = body.replace(new RegExp(`^${indent}`, "gm"), "").replace(/\n$/, "");
    const block: Block = { line, language, note: note.trim(), text };
    const isOutput = language === "json" || language === "text";
    if (isOutput && previous && markdown.slice(previous.end, found.index).trim() === "")
      previous.block.output = block;
    previous = { block, end: found.index + whole.length };
    blocks.push(block);
  }
  return blocks;
}

function isRunnable({ language, note, text }: Block): boolean {
  return (language === "sh" || language === "ts") && !note.startsWith("norun") && !installsOnly(text);
}

function installsOnly(text: string): boolean {
  const commands = text
    .split(/\n|&&|;/)
    .map((command) => command.trim())
    .filter((command) => command !== "" && !command.startsWith("#"));
  return commands.every((command) =>
    /^(?:npm (?:ci|i|install|start|test|run|pack)\b|npx .*\bserve\b|git clone |cd )/.test(command),
  );
}

function preparePlace(server: Server): Place {
  const base = temporaryDir("holdfast-docs-");
  const dir = join(base, "work");
  const bin = join(base, "bin");
  mkdirSync(join(dir, "node_modules"), { recursive: true });
  mkdirSync(bin);
  symlinkSync(root, join(dir, "node_modules", "holdfast"));
  writeFileSync(join(bin, "holdfast"), `#!/bin/sh\nexec "${process.execPath}" "${mainFile}" "$@"\n`, {
    mode: 0o755,
  });
  const stateFile = join(base, "state.sh");
  writeFileSync(stateFile, "");
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^HOLDFAST_|^NODE_TEST_CONTEXT$/.test(name),
  );
  const env = {
    ...Object.fromEntries(inherited),
    HOME: base,
    PATH: `${bin}:${process.env.PATH}`,
    HOLDFAST_URL: server.url,
    HOLDFAST_TOKEN: "secret-a",
    HOLDFAST_ADMIN_TOKEN: adminToken,
  };
  return { dir, address: `127.0.0.1:${server.port}`, env, stateFile };
}

function withAddress(text: string, { address }: Place): string {
  return text.replace(/\b(?:127\.0\.0\.1|localhost):4280\b/g, address);
}

/** Every variable that a block sets is exported, and so carried to the next block with the directory. */
async function runShell(block: Block, place: Place): Promise<string> {
  const script = `set -a\n. "${place.stateFile}"\ncd "$PWD"\n${withAddress(block.text, place)}\nexport -p > "${place.stateFile}"\n`;
  return run("bash", ["-euo", "pipefail", "-c", script], place);
}

async function runTypeScript(block: Block, place: Place): Promise<string> {
  const name = `block-${block.line}`;
  writeFileSync(join(place.dir, `${name}.mts`), withAddress(block.text, place));
  const options =
    `--ignoreConfig --target es2023 --lib es2023,esnext.disposable --module nodenext --strict --skipLibCheck ` +
    `--types node --typeRoots ${join(root, "node_modules/@types")} ${name}.mts`;
  await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...options.split(" ")], place);
  return run(process.execPath, [`${name}.mjs`], place);
}

/** Runs to the end in a process group of its own, leaves nothing behind, and returns what it printed. */
async function run(command: string, args: readonly string[], { dir, env }: Place): Promise<string> {
  const child = spawn(command, args, { cwd: dir, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const overdue = setTimeout(() => {
    stderr += `\nstopped after ${BLOCK_TIMEOUT_MS} ms`;
    killGroup(child);
  }, BLOCK_TIMEOUT_MS);
  child.once("exit", () => killGroup(child));
  const code = await new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
  clearTimeout(overdue);
  assert.equal(code, 0, `exit code ${code}\n--- stdout\n${stdout}\n--- stderr\n${stderr}`);
  return stdout;
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // nothing left of it
  }
}

function assertOutput(expected: Block, output: string): void {
  if (expected.language === "text") assert.match(output.trimEnd(), textPattern(expected.text));
  else {
    const found = differences(JSON.parse(expected.text), lastJson(output));
    assert.ok(
      found.length === 0,
      `line ${expected.line} shows something else:\n${found.join("\n")}\n--- printed\n${output}`,
    );
  }
}

/** The value that the output ends with: the longest tail that is JSON, or else its last line. */
function lastJson(output: string): unknown {
  const text = output.trim();
  const last = text.slice(text.lastIndexOf("\n") + 1);
  const tails = [...text.matchAll(/[[{]/g)].map(({ index }) => text.slice(index));
  for (const candidate of [...tails, last]) {
    try {
      return JSON.parse(candidate);
    } catch {
      // not from here
    }
  }
  return assert.fail(`no JSON at the end of:\n${output}`);
}

function differences(expected: unknown, actual: unknown, path = "$"): string[] {
  if (kindOf(expected) !== kindOf(actual))
    return [`${path}: ${kindOf(expected)} shown, ${kindOf(actual)} printed`];
  if (isRecord(expected) && isRecord(actual)) {
    if (Array.isArray(expected) && expected.length !== Object.keys(actual).length) return [`${path}: length`];
    return Object.entries(expected).flatMap(([key, value]) =>
      differences(value, actual[key], `${path}.${key}`),
    );
  }
  if (expected === actual || (typeof expected === "string" && expected.includes("..."))) return [];
  const isDuration = path.endsWith("_ms") && Math.abs(Number(expected) - Number(actual)) <= DURATION_SLACK_MS;
  return isDuration ? [] : [`${path}: ${JSON.stringify(expected)} shown, ${JSON.stringify(actual)} printed`];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

function textPattern(expected: string): RegExp {
  const literal = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const patterns = expected
    .trimEnd()
    .split("\n")
    .map((line) =>
      line.trim() === "..." ? "[\\s\\S]*" : line.trimEnd().split("...").map(literal).join(".*"),
    );
  return new RegExp(`^${patterns.join("\\n")}$`);
}
