// The test command: build, lint, then every test file, and at the very end one line: `N passed, N failed`.
//   npm test                  everything; on Debian as root it installs the system packages it needs
//   npm run test:unit         only the tests that stand beside the code (src/**/*.test.ts)
//   npm test -- lease tidy    only files whose path contains one of the words
// Every leaf test counts once and the lint counts as one test. A skipped or todo test is a failure, and so is a
// test file that crashes, overruns its time, or holds no test.
import { readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { Readable } from "node:stream";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";
import { command } from "./command.mjs";
import { allPackages, haveSystemPackages } from "./system-packages.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

// Two files at a time: most wait more than they work. Those that measure speed or memory, hog the disk, or judge histories by what
// happened in a given time run alone. The limit is per file and far above what a file takes when all is well.
const UNIT = { folder: "dist/src", concurrency: 2, fileTimeoutMs: 3 * 60_000 };
const SYSTEM = { folder: "dist/test", concurrency: 2, fileTimeoutMs: 15 * 60_000 };
const ALONE =
  /^dist\/test\/(cli-run|evidence\/|git-cost|history\/speed|http-limits|postgres-disk|security\/load|sim\/|sqlite-(size|faults)|system-(?!backup|cli|clock|nodes|secrets|start|stop|tls)|verify)/;

const tally = { passed: 0, failed: 0 };
const failures = [];

await main(process.argv.slice(2));
for (const failure of failures) console.log(`✖ ${failure}`);
process.stdout.write(`\n${tally.passed} passed, ${tally.failed} failed\n`, () =>
  process.exit(tally.failed === 0 ? 0 : 1),
);

async function main(args) {
  const options = args.filter((arg) => arg.startsWith("-"));
  const words = args.filter((arg) => !arg.startsWith("-"));
  if (options.some((option) => option !== "--unit")) return fail(`unknown option in: ${options.join(" ")}`);
  if (!command("build", process.execPath, ["scripts/build.mjs"])) return fail("the build failed");

  const unitFiles = testFiles(UNIT.folder, words);
  const systemFiles = options.includes("--unit") ? [] : testFiles(SYSTEM.folder, words);
  if (unitFiles.length + systemFiles.length === 0) return fail(`no test file matches: ${words.join(" ")}`);
  if (systemFiles.length > 0) {
    const missing = haveSystemPackages(allPackages, "Whole-system tests need them");
    if (missing !== null) return fail(`${missing}\n  or run only the unit tests: npm run test:unit`);
  }

  const linted = command("lint", "node_modules/.bin/biome", ["check", "."]);
  count(linted, "biome check . (npm run format repairs most of it)");
  if (unitFiles.length > 0) await runFiles(unitFiles, UNIT);
  const isAlone = (file) => ALONE.test(relative(root, file));
  const patient = systemFiles.filter((file) => !isAlone(file));
  const alone = systemFiles.filter(isAlone);
  if (patient.length > 0) await runFiles(patient, SYSTEM);
  if (alone.length > 0) await runFiles(alone, { ...SYSTEM, concurrency: 1 });
}

/** Runs the files, each in a process of its own, prints the spec report and adds to the tally. */
async function runFiles(files, { concurrency, fileTimeoutMs }) {
  // From Node 24 on `timeout` bounds each test, not its file; the signal then bounds them all.
  const signal = AbortSignal.timeout(fileTimeoutMs * (files.length + 1));
  // A connection that a test leaves open must not hold up all the others until the time of its file is over.
  const events = run({ files, concurrency, timeout: fileTimeoutMs, signal, forceExit: true });
  for await (const text of Readable.from(tallied(events)).compose(new spec())) process.stdout.write(text);
}

/** Passes events on to the reporter while counting. Node reports a test's children before the test itself. */
async function* tallied(events) {
  const reportedAt = []; // by nesting: how many reports since the last one a level above
  for await (const event of events) {
    if (event.type === "test:pass" || event.type === "test:fail") {
      const { nesting } = event.data;
      const isParent = (reportedAt[nesting + 1] ?? 0) > 0;
      reportedAt[nesting + 1] = 0;
      reportedAt[nesting] = (reportedAt[nesting] ?? 0) + 1;
      judge(event, isParent);
    }
    if (!isNodeSummary(event)) yield event;
  }
}

function judge({ type, data }, isParent) {
  const { name, file, details, skip, todo } = data;
  const path = file?.replace(root, "");
  const where = file === undefined ? name : file === name ? path : `${name} (${path})`;
  if (skip !== undefined && skip !== false) count(false, `${where}: skipped, and no test may be`);
  else if (todo !== undefined && todo !== false) count(false, `${where}: todo, and no test may be`);
  else if (type === "test:fail") {
    if (details.error?.failureType !== "subtestsFailed") count(false, where);
  } else if (name === file) count(false, `${where}: reported no test`);
  else if (!isParent && details.type !== "suite") count(true, where);
}

/** Node's own totals count parents and would contradict ours. */
function isNodeSummary({ type, data }) {
  return (
    type === "test:diagnostic" &&
    /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /.test(data.message)
  );
}

function count(passed, name) {
  if (passed) tally.passed += 1;
  else {
    tally.failed += 1;
    failures.push(name);
  }
}

function fail(reason) {
  count(false, reason);
}

function testFiles(folder, words) {
  return readdirSync(join(root, folder), { recursive: true })
    .map((name) => join(folder, name))
    .filter((name) => name.endsWith(".test.js"))
    .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
    .sort()
    .map((name) => join(root, name));
}
