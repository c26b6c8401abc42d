// The load of the overload section, in a process of its own: acquires of fresh names over many connections with one
// call each. In a closed loop the next call follows the reply; in an open loop calls come at a given rate, whatever
// becomes of those before, and one that finds every connection busy counts as not served. Prints what came back.
import { Connection } from "../../bench/connection.js";

export interface OverloadJob {
  readonly port: number;
  readonly bearer: string;
  readonly connections: number;
  /** Calls a second; null: a closed loop. */
  readonly rate: number | null;
  readonly warmUpMs: number;
  readonly durationMs: number;
  readonly prefix: string;
}

export interface Overloaded {
  /** After the warm-up. */
  readonly elapsedMs: number;
  /** Calls that were due. */
  readonly offered: number;
  readonly acquired: number;
  /** Refused with 503 and told when to come back. */
  readonly refused: number;
  readonly other: number;
  /** Found every connection busy. */
  readonly unsent: number;
  readonly cut: number;
}

/** Fewer than the usual listen backlog of 511, so that no SYN is dropped and retried a second later. */
const openingMax = 200;
const tickMs = 5;

const job = JSON.parse(process.argv[2] ?? "") as OverloadJob;
const counts = { offered: 0, acquired: 0, refused: 0, other: 0, unsent: 0, cut: 0 };
const idle: Connection[] = [];
let next = 0;
let isOver = false;
// Longer than the measurement: what one load leaves behind must not run out during the next.
const body = '{"ttl_seconds":600}';
const tail =
  `/acquire HTTP/1.1\r\nHost: 127.0.0.1:${job.port}\r\nAuthorization: Bearer ${job.bearer}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

function send(connection: Connection): void {
  connection.send(`POST /locks/${job.prefix}${next++}${tail}`);
}

async function open(): Promise<void> {
  const connection: Connection = await Connection.open(job.port, {
    onReply: (status, text) => {
      if (status === 200 && text.includes('"acquired"')) counts.acquired++;
      else if (status === 503 && text.includes('"retry_after_ms"')) counts.refused++;
      else counts.other++;
      if (isOver) return;
      if (job.rate !== null) return void idle.push(connection);
      counts.offered++;
      send(connection);
    },
    onClose: () => {
      counts.cut++;
      if (!isOver) void open();
    },
  });
  idle.push(connection);
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

for (let from = 0; from < job.connections; from += openingMax)
  await Promise.all(Array.from({ length: Math.min(openingMax, job.connections - from) }, open));
const startedAt = performance.now();
if (job.rate === null) for (const connection of idle) send(connection);
else {
  const perMs = job.rate / 1000;
  let due = 0;
  setInterval(() => {
    for (const until = perMs * (performance.now() - startedAt); due < until; due++) {
      counts.offered++;
      const connection = idle.pop();
      if (connection === undefined) counts.unsent++;
      else send(connection);
    }
  }, tickMs);
}
await pause(job.warmUpMs);
for (const what of Object.keys(counts) as (keyof typeof counts)[]) counts[what] = 0;
const from = performance.now();
await pause(job.durationMs);
isOver = true;
const overloaded: Overloaded = { ...counts, elapsedMs: performance.now() - from };
process.stdout.write(`${JSON.stringify(overloaded)}\n`, () => process.exit(0));
