// What the bench and its load process say to each other: an order (what to send, where, how long) and a tally
// (what came back). The load process carries out one order at a time and keeps the leases it was told to keep in
// named pools, so that later orders can renew, read or release them.

import type { NameSource } from "./names.js";

export type Work =
  /** POST /locks/{fresh name}/acquire; of the granted, every `every`-th goes into `pool`. */
  | {
      readonly kind: "acquire";
      readonly names: NameSource;
      readonly body: object;
      readonly keep?: { readonly pool: string; readonly every: number };
    }
  /** Acquire, then release what was granted, over and over on each connection (or `times` times). */
  | {
      readonly kind: "handover";
      readonly names: NameSource;
      readonly body: object;
      readonly times?: number;
      /** All on one name: each fencing token must be higher than the one before. */
      readonly rising?: boolean;
    }
  /** One prepared request per lease of a pool (bulk: per 1,000 leases), round and round or each `once`. */
  | {
      readonly kind: "pool";
      readonly pool: string;
      readonly request: PoolRequest;
      readonly once?: boolean;
      /** Forget the pool afterwards. */
      readonly drain?: boolean;
    }
  /** POST /v1/nodes with a fresh id. */
  | { readonly kind: "create"; readonly names: NameSource }
  /** POST /v1/queue/next: claims the best free node of the work graph. */
  | { readonly kind: "next" }
  /** The same POST again and again. */
  | { readonly kind: "repeat"; readonly path: string; readonly body: object };

export type PoolRequest = "renew" | "release" | "owner" | "look" | "bulk";

export interface Order {
  readonly port: number;
  readonly connections: number;
  /** Stop starting requests after so long, or after so many; one of the two, or neither for bounded work. */
  readonly seconds?: number;
  readonly count?: number;
  /** Whatever is unanswered after so long is reported as a problem. */
  readonly limitSeconds: number;
  readonly work: Work;
}

export interface Tally {
  readonly replies: number;
  /** From the first request to the last reply. */
  readonly elapsedMs: number;
  /** The wall-clock instant of the last reply, in milliseconds. */
  readonly endedAt: number;
  /** CPU time the load process itself used in that time. */
  readonly cpuMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly statuses: Readonly<Record<string, number>>;
  /** Replies by what they said: acquired, held, released, renewed, … */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Broken connections, missing replies, tokens out of order, the first odd replies. */
  readonly problems: readonly string[];
}

export type LoadReport =
  | { readonly tally: Tally; readonly failure?: undefined }
  | { readonly tally?: undefined; readonly failure: string };
