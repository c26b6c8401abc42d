// Many jobs, each claimed and released once over HTTP, then the clean-up: what file and memory do meanwhile. The
// test does it with thousands, scripts/million.mjs with a million.
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { Connection } from "../bench/connection.js";
import { residentMb } from "../bench/proc.js";
import { collectedFile } from "./collect-on-signal.js";
import { mainFile, type Server } from "./server.js";
import { Client, until } from "./system-client.js";

/** Settings under which a free name, and what was told of it, is soon forgotten. */
export const forgetful = {
  HOLDFAST_RATE_LIMIT: "off",
  HOLDFAST_RECORD_RETENTION_SECONDS: "2",
  HOLDFAST_FEED_EVENTS_MAX: "10000",
  HOLDFAST_FEED_AGE_SECONDS: "1",
};

/** A server whose memory can be looked at when all garbage is gone. */
export const observable = [
  process.execPath,
  "--expose-gc",
  "--import",
  new URL("collect-on-signal.js", import.meta.url).href,
  mainFile,
];

const bearer = "secret-a";
const connections = 64;
/** Every this many-th job's token is kept for comparison. */
const sampleEvery = 1000;

export interface Size {
  readonly fileBytes: number;
  readonly logBytes: number;
  readonly residentMb: number;
  /** Memory that JavaScript uses, as the server's metrics say; at the start and the end without garbage. */
  readonly heapMb: number;
}

export interface Churned {
  readonly start: Size;
  /** The largest of each, looked at twice a second. */
  readonly peak: Size;
  /** When the clean-up was done and nothing was left to be written. */
  readonly end: Size;
  readonly loadMs: number;
  readonly cleanMs: number;
  /** Tokens of some jobs, by their id. */
  readonly tokens: ReadonlyMap<string, number>;
}

export async function churn(
  server: Server,
  jobs: number,
  say: (text: string) => void = () => undefined,
): Promise<Churned> {
  const client = new Client(server.url, bearer, { sockets: 4 });
  const tokens = new Map<string, number>();
  const start = await settledSize(server, client);
  let peak = start;
  let done = 0;
  const looking = setInterval(async () => {
    const now = await sizeOf(server, client).catch(() => peak);
    peak = largest(peak, now);
    say(`${done} jobs, ${describe(now)}`);
  }, 500);
  const from = performance.now();
  let next = 0;
  const loops = Array.from({ length: connections }, () =>
    runJobs(
      server.port,
      () => {
        if (next === jobs) return null;
        return next++;
      },
      (id, token) => {
        done++;
        if (id % sampleEvery === 0) tokens.set(`job-${id}`, token);
      },
    ),
  );
  try {
    await Promise.all(loops);
    const loadMs = performance.now() - from;
    await untilClean(client, jobs);
    const cleanMs = performance.now() - from - loadMs;
    clearInterval(looking);
    return { start, peak, end: await settledSize(server, client), loadMs, cleanMs, tokens };
  } finally {
    clearInterval(looking);
    client.close();
  }
}

/** One connection: claims and releases what `take` gives until it gives nothing more. */
async function runJobs(
  port: number,
  take: () => number | null,
  released: (id: number, token: number) => void,
): Promise<void> {
  let [id, token] = [take(), 0];
  if (id === null) return;
  await new Promise<void>((resolve, reject) => {
    let connection: Connection | undefined;
    let last = "";
    const send = (text: string): void => {
      last = text;
      connection?.send(text);
    };
    const claim = (): void => send(post(`/jobs/job-${id}/claim`, '{"ttl_seconds":600}'));
    const onReply = (status: number, body: string): void => {
      if (status === 503 && body.includes('"unavailable"')) {
        // Busy, and certainly not done: come back when it says.
        setTimeout(send, (JSON.parse(body) as { retry_after_ms: number }).retry_after_ms, last);
        return;
      }
      if (status !== 200) {
        reject(new Error(`job-${id} answered ${status}: ${body}`));
        return;
      }
      const reply = JSON.parse(body) as { claimed?: boolean; lease_id: string; token: number };
      if (reply.claimed === true) {
        token = reply.token;
        send(post(`/jobs/job-${id}/release`, `{"lease_id":"${reply.lease_id}"}`));
        return;
      }
      released(id ?? 0, token);
      id = take();
      if (id !== null) claim();
      else {
        connection?.close();
        resolve();
      }
    };
    const onClose = (reason: string): void => reject(new Error(reason));
    Connection.open(port, { onReply, onClose }).then((opened) => {
      connection = opened;
      claim();
    }, reject);
  });
}

const post = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${bearer}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

async function metricsOf(client: Client): Promise<(name: string) => number> {
  const text = String((await client.get("/metrics")).body);
  return (name) => Number(new RegExp(`^holdfast_${name} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
}

const inStore = (what: string): string => `store{engine="sqlite",what="${what}"}`;

async function sizeOf(server: Server, client: Client): Promise<Size> {
  const file = join(server.dataDir, "holdfast.db");
  const metric = await metricsOf(client);
  return {
    fileBytes: statSync(file).size,
    logBytes: statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    residentMb: residentMb(server.pid) ?? 0,
    heapMb: Math.round(metric("nodejs_heap_size_used_bytes") / 2 ** 20),
  };
}

/** Without garbage. What is resident does not fall with it at once: V8 keeps the pages for a while. */
async function settledSize(server: Server, client: Client): Promise<Size> {
  await collectGarbage(server);
  return sizeOf(server, client);
}

async function collectGarbage(server: Server): Promise<void> {
  const done = join(server.dataDir, collectedFile);
  process.kill(server.pid, "SIGUSR2");
  await until(() => existsSync(done) || undefined, "the garbage is collected", 60_000);
  rmSync(done);
}

/** Every record was removed, all of it is in the file, and the file has stopped shrinking. */
async function untilClean(client: Client, jobs: number): Promise<void> {
  let [before, since] = [Number.NaN, performance.now()];
  await until(
    async () => {
      const metric = await metricsOf(client);
      const bytes = metric(inStore("file_bytes"));
      const isDone =
        metric("cleaned_total") >= jobs &&
        metric(inStore("applied_seq")) === metric(inStore("commits_total"));
      if (!isDone || bytes !== before) [before, since] = [bytes, performance.now()];
      return performance.now() - since > 1500 ? true : undefined;
    },
    "the clean-up is done",
    120_000,
  );
}

const largest = (one: Size, other: Size): Size => ({
  fileBytes: Math.max(one.fileBytes, other.fileBytes),
  logBytes: Math.max(one.logBytes, other.logBytes),
  residentMb: Math.max(one.residentMb, other.residentMb),
  heapMb: Math.max(one.heapMb, other.heapMb),
});

const megabytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MB`;

export const describe = ({ fileBytes, logBytes, residentMb, heapMb }: Size): string =>
  `file ${megabytes(fileBytes)} + log ${megabytes(logBytes)}, memory ${residentMb} MB resident, ${heapMb} MB heap`;

/** Claims the jobs of which a token was kept: each must be granted above it. Returns the lowest rise. */
export async function tokensRise(server: Server, tokens: ReadonlyMap<string, number>): Promise<number> {
  const client = new Client(server.url, bearer);
  let lowest = Number.POSITIVE_INFINITY;
  for (const [job, token] of tokens) {
    const { status, body } = await client.post(`/jobs/${job}/claim`);
    if (status !== 200) throw new Error(`${job} was not granted again: ${status} ${JSON.stringify(body)}`);
    lowest = Math.min(lowest, body.token - token);
  }
  client.close();
  return lowest;
}
