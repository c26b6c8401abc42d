// The load of the overload section, in a process of its own: acquires of fresh names over many connections with one
// call each. It measures by turns, a second or two each, so that a change of the machine's own speed meets both: what
// the server can do, by a closed loop over some of the connections; and what it does when calls come at several times
// that rate over all of them, whatever becomes of those before. Prints what came back.
import { readFileSync } from "node:fs";
import { Connection } from "../../bench/connection.js";

export interface OverloadJob {
  readonly port: number;
  /** The server's process. */
  readonly pid: number;
  readonly bearer: string;
  /** In the closed loop. */
  readonly peakConnections: number;
  /** In all: as many as the server answers in this time at its best, in ms, within bounds. */
  readonly backlogMs: number;
  readonly connectionsMin: number;
  readonly connectionsMax: number;
  /** Times the rate of the closed loop before. */
  readonly factor: number;
  readonly rounds: number;
  /** What is left out at the beginning of a measurement, and how long it then lasts, in ms. */
  readonly peakMs: readonly [settle: number, measure: number];
  readonly overloadMs: readonly [settle: number, measure: number];
  readonly prefix: string;
}

export interface Counts {
  readonly elapsedMs: number;
  /** Of the server's main thread, which reads, decides and answers. */
  readonly processorMs: number;
  /** For how long it was ready to run and others had the cores. */
  readonly robbedMs: number;
  /** Calls that were due. */
  readonly offered: number;
  readonly acquired: number;
  /** Refused with 503 and told when to come back. */
  readonly refused: number;
  readonly other: number;
  /** Found every connection busy. */
  readonly unsent: number;
}

export interface Overloaded {
  readonly connections: number;
  /** One more than of the others: each overload lies between two. */
  readonly peaks: readonly Counts[];
  readonly overloads: readonly Counts[];
}

/** Fewer than the usual listen backlog of 511, so that no SYN is dropped and retried a second later. */
const openingMax = 200;
const tickMs = 5;

const job = JSON.parse(process.argv[2] ?? "") as OverloadJob;
const counts = { offered: 0, acquired: 0, refused: 0, other: 0, unsent: 0 };
let connections = 0;
/** A connection that has its reply: the closed loop sends the next call, the open one keeps it for later. */
let onIdle: (connection: Connection) => void = (connection) => idle.push(connection);
const idle: Connection[] = [];
let next = 0;
// Longer than the measurement: what one phase leaves behind must not run out during the next.
const body = '{"ttl_seconds":600}';
const tail =
  `/acquire HTTP/1.1\r\nHost: 127.0.0.1:${job.port}\r\nAuthorization: Bearer ${job.bearer}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function send(connection: Connection): void {
  connection.send(`POST /locks/${job.prefix}${next++}${tail}`);
}

/** Opens as many more, each with a call: one that was never used is cut off after a while. */
async function openAll(count: number): Promise<void> {
  for (let from = 0; from < count; from += openingMax)
    await Promise.all(Array.from({ length: Math.min(openingMax, count - from) }, open));
  await drained();
}

async function open(): Promise<void> {
  const connection: Connection = await Connection.open(job.port, {
    onReply: (status, text) => {
      if (status === 200 && text.includes('"acquired"')) counts.acquired++;
      else if (status === 503 && text.includes('"retry_after_ms"')) counts.refused++;
      else counts.other++;
      onIdle(connection);
    },
    onClose: (reason) => {
      throw new Error(`the server closed a connection: ${reason}`);
    },
  });
  connections++;
  send(connection);
}

/** Resolves when every connection has its reply. */
async function drained(): Promise<void> {
  onIdle = (connection) => idle.push(connection);
  while (idle.length < connections) await pause(tickMs);
}

/** What the system says about the server's main thread, since it began. */
function scheduled(): { readonly processorMs: number; readonly robbedMs: number } {
  const text = readFileSync(`/proc/${job.pid}/task/${job.pid}/schedstat`, "latin1");
  const [ranNs = 0, waitedNs = 0] = text.split(" ").map(Number);
  return { processorMs: ranNs / 1e6, robbedMs: waitedNs / 1e6 };
}

/** What comes back from now on, without the beginning. */
async function measured([settleMs, measureMs]: readonly [number, number]): Promise<Counts> {
  await pause(settleMs);
  const [before, from, { processorMs, robbedMs }] = [{ ...counts }, performance.now(), scheduled()];
  await pause(measureMs);
  const since = (what: keyof typeof counts): number => counts[what] - before[what];
  const at = scheduled();
  return {
    elapsedMs: performance.now() - from,
    processorMs: at.processorMs - processorMs,
    robbedMs: at.robbedMs - robbedMs,
    offered: since("offered"),
    acquired: since("acquired"),
    refused: since("refused"),
    other: since("other"),
    unsent: since("unsent"),
  };
}

async function closedLoop(): Promise<Counts> {
  onIdle = (connection) => {
    counts.offered++;
    send(connection);
  };
  for (const connection of idle.splice(-job.peakConnections)) onIdle(connection);
  const result = await measured(job.peakMs);
  await drained();
  return result;
}

async function openLoop(perMs: number): Promise<Counts> {
  const startedAt = performance.now();
  let due = 0;
  const ticking = setInterval(() => {
    for (const until = perMs * (performance.now() - startedAt); due < until; due++) {
      counts.offered++;
      const connection = idle.pop();
      if (connection === undefined) counts.unsent++;
      else send(connection);
    }
  }, tickMs);
  const result = await measured(job.overloadMs);
  clearInterval(ticking);
  await drained();
  return result;
}

const perMs = ({ acquired, elapsedMs }: Counts): number => acquired / elapsedMs;

await openAll(job.peakConnections);
await closedLoop(); // a new process is slow at first
const fastest = perMs(await closedLoop());
const wanted = Math.round(
  Math.min(job.connectionsMax, Math.max(job.connectionsMin, job.backlogMs * fastest)),
);
await openAll(wanted - connections);
const [peaks, overloads]: [Counts[], Counts[]] = [[await closedLoop()], []];
for (let round = 0; round < job.rounds; round++) {
  const [before] = peaks.slice(-1);
  if (before === undefined) throw new Error("no peak was measured");
  overloads.push(await openLoop(job.factor * perMs(before)));
  peaks.push(await closedLoop());
}
const overloaded: Overloaded = { connections, peaks, overloads };
process.stdout.write(`${JSON.stringify(overloaded)}\n`, () => process.exit(0));
