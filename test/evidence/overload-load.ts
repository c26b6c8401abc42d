// The load of the overload section, in a process of its own: acquires of fresh names over many connections with one
// call each. It measures by turns, a second or two each, so that a change of the machine's own speed meets both: what
// the server can do, by a closed loop over some of the connections; and what it does when calls come at several times
// that rate over all of them, whatever becomes of those before. Prints what came back.
import { constants, setPriority } from "node:os";
import { Connection } from "../../bench/connection.js";

export interface OverloadJob {
  readonly port: number;
  readonly bearer: string;
  /** In the closed loop, and in all. */
  readonly peakConnections: number;
  readonly connections: number;
  /** Times the rate of the closed loop before. */
  readonly factor: number;
  readonly rounds: number;
  /** Of one measurement, and what is left out at its beginning. */
  readonly phaseMs: number;
  readonly settleMs: number;
  readonly prefix: string;
}

export interface Counts {
  readonly elapsedMs: number;
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
  readonly peak: Counts;
  readonly overload: Counts;
}

/** Fewer than the usual listen backlog of 511, so that no SYN is dropped and retried a second later. */
const openingMax = 200;
const tickMs = 5;

const job = JSON.parse(process.argv[2] ?? "") as OverloadJob;
const counts = { offered: 0, acquired: 0, refused: 0, other: 0, unsent: 0 };
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
  idle.push(connection);
}

/** Resolves when every connection has its reply. */
async function drained(): Promise<void> {
  onIdle = (connection) => idle.push(connection);
  while (idle.length < job.connections) await pause(tickMs);
}

/** What comes back from now on, without the beginning. */
async function measured(): Promise<Counts> {
  await pause(job.settleMs);
  const [before, from] = [{ ...counts }, performance.now()];
  await pause(job.phaseMs);
  const since = (what: keyof typeof counts): number => counts[what] - before[what];
  return {
    elapsedMs: performance.now() - from,
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
  const result = await measured();
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
  const result = await measured();
  clearInterval(ticking);
  await drained();
  return result;
}

const sum = (all: readonly Counts[]): Counts => {
  const total = (what: keyof Counts): number => all.reduce((so, one) => so + one[what], 0);
  return {
    elapsedMs: total("elapsedMs"),
    offered: total("offered"),
    acquired: total("acquired"),
    refused: total("refused"),
    other: total("other"),
    unsent: total("unsent"),
  };
};

// Five times the calls cost this process five times the work. On a machine with few cores it must not take that from the
// server: other machines' callers would not either.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
for (let from = 0; from < job.connections; from += openingMax)
  await Promise.all(Array.from({ length: Math.min(openingMax, job.connections - from) }, open));
await closedLoop(); // a new process is slow at first
const [peaks, overloads]: [Counts[], Counts[]] = [[], []];
for (let round = 0; round < job.rounds; round++) {
  const peak = await closedLoop();
  peaks.push(peak);
  overloads.push(await openLoop((job.factor * peak.acquired) / peak.elapsedMs));
}
const overloaded: Overloaded = { peak: sum(peaks), overload: sum(overloads) };
process.stdout.write(`${JSON.stringify(overloaded)}\n`, () => process.exit(0));
