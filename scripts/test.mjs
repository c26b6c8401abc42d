// The test command: build, lint, then every test file, and at the very end one line: `N passed, N failed`.
//   npm test                  everything; on Debian as root it installs the system packages it needs
//   npm run test:unit         only the tests that stand beside the code (src/**/*.test.ts)
//   npm test -- lease tidy    only files whose path contains one of the words
// Every leaf test counts once and the lint counts as one test. A skipped or todo test is a failure, and so is a
// test file that crashes, overruns its time, or holds no test.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join, relative } from "node:path";
import { Readable } from "node:stream";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

// Unit files are short and mostly wait, so two at a time, and so are whole-system tests that only ask and look. Those that
// measure time, hog the disk, step clocks or kill at the right moment run alone. The limit is per file and far above what a
// file takes when all is well.
const UNIT = { folder: "dist/src", concurrency: 2, fileTimeoutMs: 3 * 60_000 };
const SYSTEM = { folder: "dist/test", concurrency: 2, fileTimeoutMs: 15 * 60_000 };
const ALONE =
  /^dist\/test\/(cli-(git-)?(run|hold)|client|etcd-(?!contract)|evidence\/|git-(cost|guard|holders|lost|races)|history\/speed|http-(limits|waiting)|migrate|postgres-(?!conformance|pgbouncer|start)|security\/load|sim\/|sqlite-(size|faults)|system-(?!backup|cli|secrets|start|tls)|verify)/;

// Debian packages that whole-system tests use, and what shows that one is there: a command of the same name, unless said otherwise.
const SYSTEM_PACKAGES = {
  chromium: null,
  curl: null,
  "etcd-client": () => isOnPath("etcdctl"),
  "etcd-server": () => isOnPath("etcd"),
  faketime: null,
  git: null,
  haproxy: () => existsSync("/usr/sbin/haproxy"),
  jq: null,
  nginx: () => existsSync("/usr/sbin/nginx"),
  openssl: null,
  pgbouncer: () => existsSync("/usr/sbin/pgbouncer"),
  postgresql: () => isIn("/usr/lib/postgresql", (version) => `${version}/bin/postgres`),
  strace: null,
  systemd: () => isOnPath("systemd-analyze"),
};
// While it says no, packages that bring a service do not start it: tests start their own.
const SERVICE_POLICY = "/usr/sbin/policy-rc.d";

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
  if (systemFiles.length > 0 && !haveSystemPackages()) return;

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

/** Runs a step with its output shown; true when it ended with 0. */
function command(title, file, args, env = {}) {
  console.log(`> ${title}: ${[file, ...args].join(" ").replace(`${process.execPath} `, "node ")}`);
  const { status, error } = spawnSync(file, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  if (error) console.log(error.message);
  return status === 0;
}

function testFiles(folder, words) {
  return readdirSync(join(root, folder), { recursive: true })
    .map((name) => join(folder, name))
    .filter((name) => name.endsWith(".test.js"))
    .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
    .sort()
    .map((name) => join(root, name));
}

/** Installs what is missing where this user may; otherwise says what to do, counts a failure, returns false. */
function haveSystemPackages() {
  const missing = () =>
    Object.entries(SYSTEM_PACKAGES).flatMap(([name, isThere]) =>
      (isThere === null ? isOnPath(name) : isThere()) ? [] : [name],
    );
  const wanted = missing();
  if (wanted.length === 0) return true;
  if (process.getuid?.() === 0 && isOnPath("apt-get")) withoutServices(() => install(wanted));
  const still = missing();
  if (still.length === 0) return true;
  fail(
    `missing system packages: ${still.join(", ")}. Whole-system tests need them (Linux). Install them with\n` +
      `    sudo apt-get update && sudo apt-get install -y ${still.join(" ")}\n` +
      "  or run only the unit tests: npm run test:unit",
  );
  return false;
}

function install(packages) {
  const noninteractive = { DEBIAN_FRONTEND: "noninteractive" };
  command("system packages", "apt-get", ["update", "-q"], noninteractive);
  command(
    "system packages",
    "apt-get",
    ["install", "-qy", "--no-install-recommends", ...packages],
    noninteractive,
  );
}

function withoutServices(body) {
  const isOurs = !existsSync(SERVICE_POLICY);
  if (isOurs) writeFileSync(SERVICE_POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    body();
  } finally {
    if (isOurs) rmSync(SERVICE_POLICY, { force: true });
  }
}

/** Whether one of the folders in a folder holds the file. */
function isIn(folder, file) {
  return existsSync(folder) && readdirSync(folder).some((name) => existsSync(join(folder, file(name))));
}

function isOnPath(name) {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    const file = join(folder, name);
    if (folder === "" || !existsSync(file)) return false;
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
