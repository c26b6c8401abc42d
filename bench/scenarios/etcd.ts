// Durable acquire over HTTP on etcd, beside bare etcd transactions from Node at the same concurrency, by gRPC and by the JSON
// gateway. All on one member of etcd of this scenario's own; rounds in turn. The faster transport counts.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { driveBare, type Transport } from "../bare-etcd.js";
import { spawnProgram, temporaryDirectory } from "../children.js";
import { atLeast, count, type Findings, median, milliseconds, rateOf, type Speed } from "../findings.js";
import type { Lab } from "../lab.js";
import { freePort } from "../server.js";
import { inTurn } from "../versus.js";

const CONNECTIONS = 64;
const WARM_UP_SECONDS = 2;
const BODY = { ttl_seconds: 600 };
const BAR = 0.7;

type Runner = (round: number, seconds: number) => Promise<Speed>;

export async function etcd(lab: Lab): Promise<Findings> {
  const { port, stop } = await startEtcd(lab);
  try {
    return await measure(lab, port);
  } finally {
    stop();
  }
}

async function measure(lab: Lab, port: number): Promise<Findings> {
  const holdfast = await lab.holdfast(undefined, `etcd://127.0.0.1:${port}`);
  const bare =
    (transport: Transport): Runner =>
    (round, seconds) =>
      driveBare(transport, port, `${transport.slice(0, 1)}${round}`, CONNECTIONS, seconds);
  const runners = new Map<string, Runner>([
    ["gRPC", bare("gRPC")],
    ["JSON gateway", bare("JSON gateway")],
    ["Holdfast", (round, seconds) => acquireAll(lab, holdfast, round, seconds)],
  ]);
  for (const run of runners.values()) await run(0, WARM_UP_SECONDS);
  const speeds = new Map<string, Speed[]>([...runners.keys()].map((name) => [name, []]));
  for (let round = 1; round <= lab.options.rounds; round += 1) {
    for (const [name, run] of inTurn([...runners], round))
      speeds.get(name)?.push(await run(round, lab.options.seconds));
    const told = [...speeds].map(([name, all]) => `${name} ${Math.round(all.at(-1)?.perSecond ?? 0)}/s`);
    lab.say(`etcd: round ${round}: ${told.join(", ")}`);
  }
  return findingsOf(speeds);
}

async function acquireAll(
  lab: Lab,
  target: Awaited<ReturnType<Lab["holdfast"]>>,
  round: number,
  seconds: number,
): Promise<Speed> {
  const names = { style: "random", stem: `run${String(round).padStart(2, "0")}`, seed: round + 1 } as const;
  const work = { kind: "acquire", names, body: BODY } as const;
  const tally = await lab.run(target, work, { connections: CONNECTIONS, seconds }, ["acquired"]);
  return { perSecond: rateOf(tally, ["acquired"]), p50Ms: tally.p50Ms, p99Ms: tally.p99Ms };
}

function findingsOf(speeds: ReadonlyMap<string, readonly Speed[]>): Findings {
  const rates = (name: string): number[] => (speeds.get(name) ?? []).map(({ perSecond }) => perSecond);
  const faster = median(rates("gRPC")) >= median(rates("JSON gateway")) ? "gRPC" : "JSON gateway";
  const ratios = rates("Holdfast").map((rate, i) => rate / (rates(faster)[i] ?? Number.NaN));
  const facts = [...speeds].map(([name, all]) => ({
    label: name === "Holdfast" ? "durable acquire on etcd, over HTTP" : `bare etcd transactions, ${name}`,
    value: `${count(median(rates(name)))}/s, p50 ${milliseconds(median(all.map(({ p50Ms }) => p50Ms)))}, p99 ${milliseconds(median(all.map(({ p99Ms }) => p99Ms)))}`,
  }));
  const spread = `${Math.min(...ratios).toFixed(2)} – ${Math.max(...ratios).toFixed(2)}`;
  return {
    facts: [...facts, { label: `its ratio to bare etcd by ${faster}, lowest – highest`, value: spread }],
    bars: [atLeast(`durable acquire on etcd beside bare transactions by ${faster}`, median(ratios), BAR)],
  };
}

/** One member on free ports. */
async function startEtcd(lab: Lab): Promise<{ readonly port: number; readonly stop: () => void }> {
  const [client, peer] = [await freePort(), await freePort()];
  const [clientUrl, peerUrl] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  const child = spawnProgram(
    "etcd",
    [
      ["--data-dir", join(temporaryDirectory(lab.options.tmp), "etcd")],
      ["--listen-client-urls", clientUrl, "--advertise-client-urls", clientUrl],
      ["--listen-peer-urls", peerUrl, "--initial-advertise-peer-urls", peerUrl],
      ["--initial-cluster", `default=${peerUrl}`, "--logger", "zap", "--log-level", "error"],
      ["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m"],
      ["--quota-backend-bytes", String(8 * 2 ** 30)],
    ].flat(),
    { stdio: "ignore" },
  );
  for (let tries = 0; tries < 300; tries += 1) {
    const health = await fetch(`${clientUrl}/health`).catch(() => undefined);
    if (health?.ok === true) return { port: client, stop: () => child.kill("SIGKILL") };
    await sleep(100);
  }
  throw new Error("etcd did not start: is Debian's etcd-server installed?");
}
