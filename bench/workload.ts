// What each connection of the load process sends next and what a reply counts as. Requests are prepared strings,
// or a prepared head and tail around a name, so that sending one costs little; a reply is searched for the few
// words that matter and never parsed as JSON.

import { namesOf } from "./names.js";
import type { PoolRequest, Work } from "./orders.js";

export interface Workload {
  /** The next request of this connection; undefined when it has nothing more to send. */
  next(slot: number, stopping: boolean): string | undefined;
  /** Takes in a reply and says what it counts as. */
  settle(slot: number, status: number, body: string): string;
}

export interface KeptLease {
  readonly name: string;
  readonly leaseId: string;
}

export type Pools = Map<string, KeptLease[]>;

const LEASES_PER_BULK = 1000;

export function workloadOf(work: Work, port: number, count: number, pools: Pools): Workload {
  switch (work.kind) {
    case "acquire":
      return acquiring(work, port, count, pools);
    case "handover":
      return handingOver(work, port);
    case "pool": {
      const leases = pools.get(work.pool) ?? [];
      if (leases.length === 0) throw new Error(`the pool ${work.pool} is empty`);
      if (work.drain === true) pools.delete(work.pool);
      const requests = requestsFor(work.request, leases, port);
      return cycling(requests, work.once === true ? requests.length : count, READERS[work.request]);
    }
    case "create": {
      const name = namesOf(work.names);
      const request = (): string => post(port, "/v1/nodes", { id: name(), type: "task", title: "bench" });
      return making(request, count, (status) => (status === 201 ? "created" : "other"));
    }
    case "next":
      return cycling([post(port, "/v1/queue/next", {})], count, READ_NEXT);
    case "repeat":
      return cycling([post(port, work.path, work.body)], count, (status) =>
        status === 200 ? "ok" : "other",
      );
  }
}

function acquiring(work: Work & { kind: "acquire" }, port: number, count: number, pools: Pools): Workload {
  const name = namesOf(work.names);
  const tail = `/acquire${rest(port, work.body)}`;
  const names: string[] = [];
  const kept = work.keep === undefined ? undefined : poolOf(pools, work.keep.pool);
  const every = work.keep?.every ?? 1;
  let sent = 0;
  let granted = 0;
  return {
    next(slot, stopping) {
      if (stopping || sent >= count) return undefined;
      sent += 1;
      const fresh = name();
      names[slot] = fresh;
      return `POST /locks/${fresh}${tail}`;
    },
    settle(slot, status, body) {
      const outcome = readAcquire(status, body);
      if (outcome === "acquired" && kept !== undefined && granted++ % every === 0) {
        kept.push({ name: names[slot] ?? "", leaseId: field(body, LEASE_ID, '"') });
      }
      return outcome;
    },
  };
}

function handingOver(work: Work & { kind: "handover" }, port: number): Workload {
  const name = namesOf(work.names);
  const tail = `/acquire${rest(port, work.body)}`;
  const times = work.times ?? Number.POSITIVE_INFINITY;
  const names: string[] = [];
  const leases: (string | undefined)[] = [];
  const done: number[] = [];
  let highest = 0;
  return {
    next(slot, stopping) {
      const leaseId = leases[slot];
      if (leaseId !== undefined) return post(port, `/locks/${names[slot]}/release`, { lease_id: leaseId });
      if (stopping || (done[slot] ?? 0) >= times) return undefined;
      const fresh = name();
      names[slot] = fresh;
      return `POST /locks/${fresh}${tail}`;
    },
    settle(slot, status, body) {
      if (leases[slot] !== undefined) {
        leases[slot] = undefined;
        return status === 200 ? "released" : "other";
      }
      const outcome = readAcquire(status, body);
      if (outcome !== "acquired") return outcome;
      leases[slot] = field(body, LEASE_ID, '"');
      done[slot] = (done[slot] ?? 0) + 1;
      if (work.rising !== true) return outcome;
      const token = Number.parseInt(field(body, TOKEN, ","), 10);
      const rises = token > highest;
      highest = Math.max(highest, token);
      return rises ? outcome : "token_not_rising";
    },
  };
}

function cycling(requests: readonly string[], count: number, read: Reader): Workload {
  let sent = 0;
  return {
    next: (_slot, stopping) => (stopping || sent >= count ? undefined : requests[sent++ % requests.length]),
    settle: (_slot, status, body) => read(status, body),
  };
}

/** A request of its own each time. */
function making(request: () => string, count: number, read: Reader): Workload {
  let sent = 0;
  return {
    next: (_slot, stopping) => (stopping || sent++ >= count ? undefined : request()),
    settle: (_slot, status, body) => read(status, body),
  };
}

const READ_NEXT: Reader = (_status, body) => {
  if (body.includes('"status":"claimed"')) return "claimed";
  return body.includes('"status":"empty"') ? "empty" : "other";
};

type Reader = (status: number, body: string) => string;

const LEASE_ID = '"lease_id":"';
const TOKEN = '"fencing_token":';

const READERS: Readonly<Record<PoolRequest, Reader>> = {
  renew: (status) => (status === 200 ? "renewed" : "other"),
  release: (status) => (status === 200 ? "released" : "other"),
  owner: (_status, body) => (body.includes('"claimed":true') ? "claimed" : "free"),
  look: (_status, body) => {
    if (!body.includes('"status":"free"')) return "held";
    return body.includes('"how":"expired"') ? "expired" : "free";
  },
  bulk: (_status, body) => (body.includes('"lost":[]') ? "renewed" : "lost"),
};

function readAcquire(status: number, body: string): string {
  if (status !== 200) return "other";
  if (body.includes('"status":"acquired"')) return "acquired";
  return body.includes('"status":"held"') ? "held" : "other";
}

function requestsFor(request: PoolRequest, leases: readonly KeptLease[], port: number): string[] {
  if (request === "owner") return leases.map(({ name }) => `GET /jobs/${name}${rest(port)}`);
  if (request === "look") return leases.map(({ name }) => `GET /locks/${name}${rest(port)}`);
  if (request !== "bulk") {
    return leases.map(({ name, leaseId }) => post(port, `/locks/${name}/${request}`, { lease_id: leaseId }));
  }
  const calls: string[] = [];
  for (let at = 0; at < leases.length; at += LEASES_PER_BULK) {
    const some = leases.slice(at, at + LEASES_PER_BULK);
    const body = { leases: some.map(({ name, leaseId }) => ({ job_id: name, lease_id: leaseId })) };
    calls.push(post(port, "/jobs/heartbeat", body));
  }
  return calls;
}

function poolOf(pools: Pools, name: string): KeptLease[] {
  const pool = pools.get(name) ?? [];
  pools.set(name, pool);
  return pool;
}

function field(body: string, key: string, end: string): string {
  const start = body.indexOf(key) + key.length;
  return body.slice(start, body.indexOf(end, start));
}

function post(port: number, path: string, body: object): string {
  return `POST ${path}${rest(port, body)}`;
}

/** Everything after the path. Bodies are ASCII, so characters are bytes. */
function rest(port: number, body?: object): string {
  const head = ` HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer bench-secret\r\n`;
  if (body === undefined) return `${head}\r\n`;
  const text = JSON.stringify(body);
  return `${head}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
}
