// `npm run evidence`: everything that shows what Holdfast promises, in one command. Ends with 0 only if all of it is
// green; prints what it ran on, its seed, and for what is red how to look at it again.
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine } from "../../bench/machine.js";
import { temporaryDir } from "../server.js";
import { engines } from "./engines.js";
import { faults } from "./faults/all.js";
import { type Options, sections } from "./sections.js";

const usage = `npm run evidence -- [options]
  --engine NAMES    only these, separated by commas: ${engines.map(({ name }) => name).join(", ")}
  --fault NAMES     only these: ${faults.map(({ name }) => name).join(", ")}
  --only NAMES      only these sections: ${sections.map(({ name }) => name).join(", ")}
  --seconds N       length of a cell of the matrix (20)
  --seed N          another run's seed
`;

const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** The rows that were named; all without a name. */
function chosen<Row extends { readonly name: string }>(
  option: string,
  rows: readonly Row[],
  names: string | undefined,
): readonly Row[] {
  if (names === undefined) return rows;
  const wanted = names.split(",");
  const strange = wanted.filter((name) => !rows.some((row) => row.name === name));
  if (strange.length > 0) throw new Error(`${option}: there is no ${strange.join(", ")}`);
  return rows.filter(({ name }) => wanted.includes(name));
}

function read(args: readonly string[]): { options: Options; only: typeof sections } | null {
  const option = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      engine: option,
      fault: option,
      only: option,
      seconds: option,
      seed: option,
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return null;
  const seconds = Number(values.seconds ?? 20);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (!(seconds >= 1)) throw new Error(`--seconds ${values.seconds}: give a number of at least 1`);
  if (!Number.isInteger(seed)) throw new Error(`--seed ${values.seed}: give a whole number`);
  return {
    options: {
      engines: chosen("--engine", engines, values.engine),
      faults: chosen("--fault", faults, values.fault),
      seconds,
      seed,
      keepIn: mkdtempSync(join(tmpdir(), "holdfast-evidence-")),
      say,
    },
    only: chosen("--only", sections, values.only),
  };
}

async function main(args: readonly string[]): Promise<number> {
  let asked: ReturnType<typeof read>;
  try {
    asked = read(args);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}`);
    return 2;
  }
  if (asked === null) {
    process.stdout.write(usage);
    return 0;
  }
  const { options, only } = asked;
  const { cpu, memory, system, node, disk, date } = describeMachine(temporaryDir("holdfast-machine-"), []);
  say(`${date}  seed ${options.seed}`);
  say(`${cpu}, ${memory}, ${system}, Node ${node}, ${disk}`);
  const summary: string[] = [];
  let redCount = 0;
  for (const { name, says, run } of only) {
    say(`\n== ${name}: ${says}`);
    const from = performance.now();
    const reasons = await run(options);
    for (const reason of reasons) say(`RED ${reason}`);
    redCount += reasons.length > 0 ? 1 : 0;
    const seconds = ((performance.now() - from) / 1000).toFixed(0).padStart(4);
    summary.push(`${name.padEnd(16)}${seconds} s  ${reasons.length === 0 ? "ok" : "RED"}`);
  }
  say(`\n${summary.join("\n")}`);
  try {
    rmdirSync(options.keepIn); // goes if nothing was kept
  } catch {
    say(`\nkept in ${options.keepIn}; the seed was ${options.seed}`);
  }
  return redCount === 0 ? 0 : 1;
}

/** What is left open after that keeps the command alive, and is told instead, in ms. */
const leftOpenMs = 10_000;

process.exitCode = await main(process.argv.slice(2));
setTimeout(() => {
  say(`RED something was left open: ${process.getActiveResourcesInfo().join(", ")}`);
  process.exit(1);
}, leftOpenMs).unref();
