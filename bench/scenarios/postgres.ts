// Durable acquire on PostgreSQL beside what pgbench gets from the same server with one upsert for each transaction, and two
// servers on one database beside one: all with 64 clients in sum and fresh names, rounds in turn.

import { execFile } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { ownFolder, Postgres, postgresBin, unprivileged } from "../../test/postgres-lab.js";
import { atLeast, count, type Findings, median, milliseconds, rateOf } from "../findings.js";
import type { Lab } from "../lab.js";
import { quiet } from "../proc.js";
import type { Holdfast } from "../server.js";
import { inTurn } from "../versus.js";

const BODY = { ttl_seconds: 600 };
const GOOD = ["acquired"];
const CLIENTS = 64;
const WARM_UP_SECONDS = 3;
/** About what a lock's record takes. */
const UPSERT = `\\set id random(1, 1000000000000)
INSERT INTO bench (key, value) VALUES ('lock/default/' || :id, repeat('x', 200))
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;
`;
const run = promisify(execFile);

interface Speed {
  readonly perSecond: number;
  readonly p99Ms: number;
}

export async function postgres(lab: Lab): Promise<Findings> {
  const server = await Postgres.start({ settings: { shared_buffers: "256MB", max_wal_size: "2GB" } });
  try {
    await server.sql("CREATE DATABASE bench");
    await server.sql("CREATE TABLE bench (key text PRIMARY KEY, value text NOT NULL)", [], "bench");
    const database = await server.database();
    const nodes = [await lab.holdfast(undefined, database), await lab.holdfast(undefined, database)] as const;
    const rounds = await compare(lab, server, nodes);
    for (const node of nodes) await node.stop();
    return findingsOf(rounds);
  } finally {
    await server.stop("SIGINT");
  }
}

/** pgbench, one server, two servers. */
type Runner = "bare" | "one" | "two";
type Round = Readonly<Record<Runner, Speed>>;

async function compare(lab: Lab, server: Postgres, nodes: readonly [Holdfast, Holdfast]): Promise<Round[]> {
  const { rounds, seconds } = lab.options;
  const acquire = async (called: readonly Holdfast[], round: number, length: number): Promise<Speed> => {
    const works = called.map((node, nth) => {
      const stem = `${called.length}${nth}${String(round).padStart(3, "0")}`;
      const names = { style: "random", stem, seed: 2 * round + nth + 1 } as const;
      return [node, { kind: "acquire", names, body: BODY }] as const;
    });
    const extent = { connections: CLIENTS / called.length, seconds: length };
    const tallies = await lab.runAll(works, extent, GOOD);
    return {
      perSecond: tallies.reduce((sum, tally) => sum + rateOf(tally, GOOD), 0),
      p99Ms: Math.max(...tallies.map(({ p99Ms }) => p99Ms)),
    };
  };
  const runners: Record<Runner, (round: number, length: number) => Promise<Speed>> = {
    bare: (_, length) => pgbench(server, length),
    one: (round, length) => acquire(nodes.slice(0, 1), round, length),
    two: (round, length) => acquire(nodes, round, length),
  };
  lab.say("postgres: warming up");
  for (const run of Object.values(runners)) await run(0, WARM_UP_SECONDS);
  const found: Round[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const speeds = new Map<string, Speed>();
    for (const [name, run] of inTurn(Object.entries(runners), round)) {
      for (const { pid } of nodes) await quiet(pid);
      await server.sql("CHECKPOINT");
      speeds.set(name, await run(round, seconds));
    }
    const [bare, one, two] = [speeds.get("bare"), speeds.get("one"), speeds.get("two")];
    if (bare === undefined || one === undefined || two === undefined)
      throw new Error("a round without all runs");
    found.push({ bare, one, two });
    const [b, o, t] = [bare, one, two].map(({ perSecond }) => Math.round(perSecond));
    lab.say(`postgres: round ${round}: ${o}/s, two servers ${t}/s, pgbench ${b}/s`);
  }
  return found;
}

/** One upsert for each transaction, prepared once: the fastest that it offers. */
async function pgbench(server: Postgres, seconds: number): Promise<Speed> {
  const folder = ownFolder("pgbench");
  const script = join(folder, "upsert.sql");
  writeFileSync(script, UPSERT);
  const host = ["-h", "127.0.0.1", "-p", String(server.port), "-U", "postgres"];
  const load = ["-n", "-M", "prepared", "-c", String(CLIENTS), "-j", "2", "-T", String(Math.ceil(seconds))];
  const log = ["--log", `--log-prefix=${join(folder, "log")}`, "-f", script];
  const { stdout } = await run(
    ...unprivileged(join(postgresBin(), "pgbench"), [...host, ...load, ...log, "bench"]),
  );
  const [, rate] = /tps = ([\d.]+)/.exec(stdout) ?? [];
  if (rate === undefined) throw new Error(`pgbench said:\n${stdout}`);
  const times = readdirSync(folder)
    .filter((name) => name.startsWith("log"))
    .flatMap((name) => readFileSync(join(folder, name), "utf8").trim().split("\n"))
    .map((line) => Number(line.split(" ")[2]) / 1000)
    .sort((a, b) => a - b);
  return { perSecond: Number(rate), p99Ms: times[Math.floor(times.length * 0.99)] ?? Number.NaN };
}

function findingsOf(rounds: readonly Round[]): Findings {
  const shown = (runner: Runner): string => {
    const speeds = rounds.map((round) => round[runner]);
    const rate = count(median(speeds.map(({ perSecond }) => perSecond)));
    return `${rate}/s, p99 ${milliseconds(median(speeds.map(({ p99Ms }) => p99Ms)))}`;
  };
  const ratiosOf = (mine: Runner, other: Runner): number[] =>
    rounds.map((round) => round[mine].perSecond / round[other].perSecond);
  const ratio = (ratios: readonly number[]): string =>
    `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} – ${Math.max(...ratios).toFixed(2)})`;
  const [besideBare, besideOne] = [ratiosOf("one", "bare"), ratiosOf("two", "one")];
  return {
    facts: [
      { label: "durable acquire on PostgreSQL, 64 connections", value: shown("one") },
      { label: "pgbench, one upsert each, 64 clients", value: shown("bare") },
      { label: "… the first beside the second", value: ratio(besideBare) },
      { label: "two servers on the same database, 32 connections each", value: shown("two") },
      { label: "… beside one server", value: ratio(besideOne) },
    ],
    bars: [
      atLeast("durable acquire on PostgreSQL: speed beside pgbench", median(besideBare), 1),
      atLeast("two servers on one PostgreSQL beside one", median(besideOne), 1.3),
    ],
  };
}
