// What a lock in a shell loop or a hook costs: `holdfast lock acquire --git=local` from its start to its end, beside
// `holdfast --version` and the two git processes that it cannot do without, by hyperfine, all of them in each round. A Node
// program that starts these two and does nothing else shows how much of the rest is Node's own.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory } from "../children.js";
import { atMost, type Findings, median, milliseconds } from "../findings.js";
import type { Lab } from "../lab.js";

const RUNS_PER_ROUND = 10;

/** As the engine calls git: by default it would sync no reference. */
const SYNCED = ["-c", "core.fsync=loose-object,reference"];
/** About as long as the record of a lock. */
const RECORD = JSON.stringify({ holdfast: 1, record: "x".repeat(400) });

interface Cost {
  /** The median. */
  readonly wallMs: number;
  /** User and system, of children, too; the mean. */
  readonly cpuMs: number;
}

type Round = Readonly<Record<"empty" | "version" | "acquire" | "bare" | "hash" | "update", Cost>>;

export async function cliStart(lab: Lab): Promise<Findings> {
  const repository = madeRepository(lab.options.tmp);
  const rounds: Round[] = [];
  for (let round = 0; round < lab.options.rounds; round += 1) {
    rounds.push(measured(repository, lab.options.program));
    lab.say(`cli-start: round ${round + 1} of ${lab.options.rounds}`);
  }
  const of = (kind: keyof Cost) => ({
    spawns: median(rounds.map(({ hash, update }) => hash[kind] + update[kind])),
    ratio: median(
      rounds.map(
        ({ acquire, version, hash, update }) => (acquire[kind] - version[kind]) / (hash[kind] + update[kind]),
      ),
    ),
    bare: median(
      rounds.map(
        ({ acquire, version, bare, empty }) => (acquire[kind] - version[kind]) / (bare[kind] - empty[kind]),
      ),
    ),
  });
  const [wall, cpu] = [of("wallMs"), of("cpuMs")];
  const row = (label: string, name: keyof Round) => ({
    label,
    value: `${milliseconds(median(rounds.map((one) => one[name].wallMs)))}, processor ${milliseconds(median(rounds.map((one) => one[name].cpuMs)))}`,
  });
  return {
    facts: [
      row("an empty Node program", "empty"),
      row("holdfast --version", "version"),
      row("holdfast lock acquire --git=local", "acquire"),
      row("a Node program that only starts the two git processes", "bare"),
      {
        label: "the two git processes by themselves",
        value: `${milliseconds(wall.spawns)}, processor ${milliseconds(cpu.spawns)}`,
      },
      { label: "(acquire - version) / the two, by processor time", value: cpu.ratio.toFixed(2) },
      {
        label: "(acquire - version) / (the Node program with the two - the empty one)",
        value: `${wall.bare.toFixed(2)}, by processor time ${cpu.bare.toFixed(2)}`,
      },
    ],
    bars: [
      atMost(
        "local acquire by the command line, less --version, beside its two git processes",
        wall.ratio,
        2,
      ),
    ],
  };
}

/** A repository with what the git processes are given, and the programs to compare with. */
function madeRepository(tmp: string): string {
  const dir = temporaryDirectory(tmp);
  const git = (args: readonly string[], input = ""): string =>
    execFileSync("git", args, { cwd: dir, input, encoding: "utf8" }).trim();
  git(["init", "-q"]);
  const oid = git(["hash-object", "-w", "--stdin"], RECORD);
  const changes = `start\nupdate refs/holdfast/locks/measured ${oid} ${"0".repeat(oid.length)}\ncommit\n`;
  const files = join(dir, "measured");
  mkdirSync(files);
  writeFileSync(join(files, "record"), RECORD);
  writeFileSync(join(files, "oid"), oid);
  writeFileSync(join(files, "empty.cjs"), "");
  const calls = [
    [[...SYNCED, "hash-object", "-w", "--stdin"], RECORD],
    [[...SYNCED, "update-ref", "--stdin"], changes],
  ];
  writeFileSync(
    join(files, "bare.cjs"),
    `const { spawn } = require("node:child_process");
const run = ([args, input]) => new Promise((ended) => {
  const child = spawn("git", args);
  child.stdout.resume();
  child.once("close", ended);
  child.stdin.end(input);
});
const [first, second] = ${JSON.stringify(calls)};
run(first).then(() => run(second));
`,
  );
  return dir;
}

/** Each run finds no lock, and no object of the name that it writes. */
const FORGET = "rm -rf .git/refs/holdfast .git/holdfast/leases .git/holdfast/local .git/objects/??";

function measured(repository: string, program: string): Round {
  const files = join(repository, "measured");
  const node = `'${process.execPath}'`;
  const [empty, version, acquire] = timed(repository, FORGET, [
    `${node} '${join(files, "empty.cjs")}'`,
    `${node} '${program}' --version`,
    `${node} '${program}' lock acquire --git=local measured`,
  ]);
  const [hash] = timed(repository, FORGET, [`git ${SYNCED.join(" ")} hash-object -w measured/record`]);
  // The object has to be there.
  const keep = `${FORGET}; git hash-object -w measured/record`;
  const oid = readFileSync(join(files, "oid"), "utf8");
  const [update] = timed(repository, keep, [
    `git ${SYNCED.join(" ")} update-ref refs/holdfast/locks/measured ${oid} ${"0".repeat(oid.length)}`,
  ]);
  const [bare] = timed(repository, FORGET, [`${node} '${join(files, "bare.cjs")}'`]);
  if (!empty || !version || !acquire || !hash || !update || !bare)
    throw new Error("hyperfine told too little");
  return { empty, version, acquire, hash, update, bare };
}

interface Exported {
  readonly results: readonly { readonly median: number; readonly user: number; readonly system: number }[];
}

function timed(cwd: string, prepare: string, commands: readonly string[]): Cost[] {
  const json = join(cwd, "measured", "figures.json");
  const args = ["-N", "-w", "1", "-r", String(RUNS_PER_ROUND), "--style", "none", "--export-json", json];
  try {
    execFileSync("hyperfine", [...args, "--prepare", `sh -c '${prepare}'`, ...commands], {
      cwd,
      stdio: ["ignore", "ignore", "pipe"],
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new Error("this scenario needs hyperfine: apt-get install hyperfine");
  }
  const { results } = JSON.parse(readFileSync(json, "utf8")) as Exported;
  return results.map(({ median, user, system }) => ({
    wallMs: median * 1000,
    cpuMs: (user + system) * 1000,
  }));
}
