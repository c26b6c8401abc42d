// `npm run bench`: measures the built server beside a bare echo server and prints a table of ratios. Each scenario
// gets fresh servers on empty data and its own load process. A bar that is not met is reported and does not fail
// the run; a broken promise (unexpected status, over 1 % not acquired, tokens out of order) exits with 1.

import { writeFileSync } from "node:fs";
import { cleanUpAtExit, temporaryDirectory } from "./children.js";
import type { Findings } from "./findings.js";
import { Lab } from "./lab.js";
import { describeMachine } from "./machine.js";
import { type Options, readOptions, USAGE } from "./options.js";
import { render } from "./report.js";
import { acquire } from "./scenarios/acquire.js";
import { cliStart } from "./scenarios/cli-start.js";
import { control } from "./scenarios/control.js";
import { etcd } from "./scenarios/etcd.js";
import { expiry } from "./scenarios/expiry.js";
import { gitLocal } from "./scenarios/git-local.js";
import { bulk, session } from "./scenarios/heartbeat.js";
import { owner, renew } from "./scenarios/held.js";
import { hot } from "./scenarios/hot.js";
import { next } from "./scenarios/next.js";
import { pair } from "./scenarios/pair.js";
import { postgres } from "./scenarios/postgres.js";
import { scale } from "./scenarios/scale.js";
import { waiters } from "./scenarios/waiters.js";

type Scenario = (lab: Lab) => Promise<Findings>;

/** In the order they run and are reported. */
const SCENARIOS = new Map<string, Scenario>(
  Object.entries({
    control,
    acquire,
    renew,
    pair,
    owner,
    expiry,
    hot,
    waiters,
    bulk,
    session,
    next,
    scale,
    "cli-start": cliStart,
    "git-local": gitLocal,
    etcd,
    postgres,
  }),
);

const startedAt = performance.now();

async function main(): Promise<number> {
  const options = chooseOptions();
  if (options === undefined) return 2;
  if (options.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  cleanUpAtExit();
  const machine = describeMachine(temporaryDirectory(options.tmp), process.argv.slice(2));
  if (machine.disk.startsWith("tmpfs"))
    say(`warning: ${options.tmp} is a tmpfs, where nothing is durable; see --tmp`);
  const findings: Findings[] = [];
  const failures: string[] = [];
  for (const [name, scenario] of SCENARIOS) {
    if (options.only.length > 0 && !options.only.includes(name)) continue;
    const lab = new Lab(options, say);
    try {
      findings.push(await scenario(lab));
    } catch (error) {
      lab.fail(error instanceof Error ? error.message : String(error));
    } finally {
      failures.push(...lab.failures.map((failure) => `${name}: ${failure}`));
      await lab.close();
    }
  }
  const report = { machine, findings, failures };
  const text = render(report);
  if (options.markdown !== undefined) writeFileSync(options.markdown, text);
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
  process.stdout.write(text);
  return failures.length > 0 ? 1 : 0;
}

function chooseOptions(): Options | undefined {
  try {
    const options = readOptions(process.argv.slice(2));
    const unknown = options.only.filter((name) => !SCENARIOS.has(name));
    if (unknown.length === 0) return options;
    throw new Error(`no scenario ${unknown.join(", ")}; there are ${[...SCENARIOS.keys()].join(", ")}`);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return undefined;
  }
}

function say(text: string): void {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0).padStart(4);
  process.stderr.write(`${seconds} s  ${text}\n`);
}

process.exitCode = await main();
