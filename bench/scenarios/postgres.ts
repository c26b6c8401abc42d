// Durable acquire on PostgreSQL beside what pgbench gets from the same server with one upsert for each transaction: both with 64
// clients and fresh names, rounds in turn.

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
    const holdfast = await lab.holdfast(undefined, await server.database());
    const rounds = await compare(lab, server, holdfast);
    await holdfast.stop();
    return findingsOf(rounds);
  } finally {
    await server.stop("SIGINT");
  }
}

interface Round {
  readonly mine: Speed;
  readonly bare: Speed;
}

async function compare(lab: Lab, server: Postgres, holdfast: Holdfast): Promise<Round[]> {
  const { rounds, seconds } = lab.options;
  const bare = (length: number) => pgbench(server, length);
  const mine = async (round: number, length: number): Promise<Speed> => {
    const names = { style: "random", stem: `run${String(round).padStart(2, "0")}`, seed: round + 1 } as const;
    const work = { kind: "acquire", names, body: BODY } as const;
    const tally = await lab.run(holdfast, work, { connections: CLIENTS, seconds: length }, GOOD);
    return { perSecond: rateOf(tally, GOOD), p99Ms: tally.p99Ms };
  };
  lab.say("postgres: warming up");
  await bare(WARM_UP_SECONDS);
  await mine(0, WARM_UP_SECONDS);
  const found: Round[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const speeds = new Map<string, Speed>();
    for (const one of inTurn(["bare", "mine"], round)) {
      await quiet(holdfast.pid);
      await server.sql("CHECKPOINT");
      speeds.set(one, one === "bare" ? await bare(seconds) : await mine(round, seconds));
    }
    const [b, m] = [speeds.get("bare"), speeds.get("mine")];
    if (b === undefined || m === undefined) throw new Error("a round without both runs");
    found.push({ bare: b, mine: m });
    lab.say(`postgres: round ${round}: ${Math.round(m.perSecond)}/s, pgbench ${Math.round(b.perSecond)}/s`);
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
  const ratios = rounds.map(({ mine, bare }) => mine.perSecond / bare.perSecond);
  const shown = (speeds: readonly Speed[]): string =>
    `${count(median(speeds.map(({ perSecond }) => perSecond)))}/s, p99 ${milliseconds(median(speeds.map(({ p99Ms }) => p99Ms)))}`;
  const [lowest, highest] = [Math.min(...ratios), Math.max(...ratios)];
  return {
    facts: [
      {
        label: "durable acquire on PostgreSQL, 64 connections",
        value: shown(rounds.map(({ mine }) => mine)),
      },
      { label: "pgbench, one upsert each, 64 clients", value: shown(rounds.map(({ bare }) => bare)) },
      {
        label: "… the first beside the second",
        value: `${median(ratios).toFixed(2)} (${lowest.toFixed(2)} – ${highest.toFixed(2)})`,
      },
    ],
    bars: [atLeast("durable acquire on PostgreSQL: speed beside pgbench", median(ratios), 1)],
  };
}
