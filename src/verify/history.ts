/**
 * What was asked of a lease service and what it answered: the only thing a verdict rests on. Whoever drives a
 * service, over HTTP or in a simulation, writes one of these.
 *
 * Instants are milliseconds on the recorder's own monotonic clock, never the service's. A process asks one thing at
 * a time: its next call begins after the reply of the one before, or after it gave up on it.
 */

import type { NodeCall, NodeReply } from "./node-calls.js";

/** Names a lease as the caller knows it: the secret lease id, or any stand-in that is the same for the same lease. */
export type LeaseRef = string;

export type Call =
  | {
      readonly op: "acquire";
      readonly name: string;
      /** null: as long as the session lives. */
      readonly ttlMs: number | null;
      /** 0: answer at once. */
      readonly waitMs: number;
      readonly requestId: string | null;
      readonly session: string | null;
      /** Proof of being the holder already. */
      readonly lease: LeaseRef | null;
      readonly delayMs: number;
      /** What others who find the name held are shown of this caller; where it is not said, nothing is judged by it. */
      readonly label?: string;
    }
  /** `ttlMs` null: the TTL it has. */
  | { readonly op: "renew"; readonly name: string; readonly lease: LeaseRef; readonly ttlMs: number | null }
  | { readonly op: "release"; readonly name: string; readonly lease: LeaseRef }
  /** An operator ends whatever is held. */
  | { readonly op: "force"; readonly name: string }
  | { readonly op: "read"; readonly name: string }
  | { readonly op: "open"; readonly ttlMs: number }
  | { readonly op: "keepalive"; readonly session: string }
  | { readonly op: "end"; readonly session: string }
  | NodeCall;

export type Reply =
  | NodeReply
  /** Acquire: the lease is the caller's. Renew: it still is. */
  | {
      readonly kind: "granted";
      readonly lease: LeaseRef;
      readonly token: number;
      /** What the reply says is left, in ms. */
      readonly leftMs: number;
    }
  /** Acquire: another has it, and who, by fencing token; null where the name itself is free (a lease that overlaps). */
  | {
      readonly kind: "held";
      readonly token: number | null;
      /** The name that overlaps, where the reply says it; null: one that the caller must not know of. */
      readonly overlapping?: string | null;
      readonly holder?: Holder;
    }
  /** Acquire: nobody may have it yet (a lock delay, or the quiet time after a restore). */
  | { readonly kind: "delayed" }
  /** Renew, release: this lease is over or never was. Acquire: what this request id was granted is over. */
  | { readonly kind: "lost" }
  /** Read: `token` is the holder's; when free, the last one granted, 0 if none is remembered. */
  | { readonly kind: "state"; readonly held: boolean; readonly token: number; readonly holder?: Holder }
  /** Release, force, keepalive, end: done. Keepalive: what the reply says is left of the session, in ms. */
  | { readonly kind: "done"; readonly leftMs?: number }
  | { readonly kind: "opened"; readonly session: string; readonly leftMs: number }
  /** The session is over or unknown. */
  | { readonly kind: "gone" }
  /** The request id was used with another body. */
  | { readonly kind: "reused" }
  /** Refused without effect, now and later: any other 4xx, 429, or 503 `unavailable`. */
  | { readonly kind: "refused"; readonly code: string }
  /** May have been done: a lost reply, a timeout, 503 `unknown_outcome`. */
  | {
      readonly kind: "unknown";
      readonly why: string;
      /** It was answered as done, without saying what: an answer that is none. */
      readonly isHollow?: true;
    };

/** Who is said to have a name. */
export interface Holder {
  readonly principal: string;
  /** What its acquire had to show; null: nothing. */
  readonly label: string | null;
  /** What is said to be left of its lease, in ms. */
  readonly leftMs: number;
}

/** A copy of a request that the network made is an operation of its own. */
export interface Operation {
  readonly process: string;
  /** Who wrote it down, where several did: one that stands still notes neither replies nor events. */
  readonly recorder?: string;
  /** Who asks, as the service knows it: request ids and sessions belong to a principal. */
  readonly principal: string;
  readonly call: Call;
  readonly began: number;
  /** Infinity where no reply came. */
  readonly ended: number;
  readonly reply: Reply;
}

/** One event of a watch, as it arrived. */
export interface Seen {
  readonly stream: string;
  /** As that of an operation. */
  readonly recorder?: string;
  readonly at: number;
  /**
   * `snapshot`: the state when the stream began; `reset`: the stream says that it may have missed something.
   * `opened` and `closed` are the recorder's own marks of a connection: when it was asked for, if the service took it,
   * and when it ended, on whichever side. Where there are none, nothing is judged that depends on them.
   */
  readonly event:
    | "opened"
    | "closed"
    | "snapshot"
    | "synced"
    | "acquired"
    | "renewed"
    | "released"
    | "expired"
    | "reset";
  /** Of `opened`: the place that it was asked to go on from. */
  readonly id: string | null;
  /** Of `opened`: what the names that it follows begin with. */
  readonly name: string;
  readonly token: number;
}

/** Whether an event tells of a change, and not of what is there already or of the stream itself. */
export const isChange = (event: Seen["event"]): boolean =>
  event === "acquired" || event === "renewed" || event === "released" || event === "expired";

export interface History {
  readonly operations: readonly Operation[];
  readonly seen: readonly Seen[];
  /** How far the service's clock and the recorder's may drift apart over a lease, in ms. */
  readonly clockBoundMs: number;
  /**
   * When the service was brought back from a backup: from before it stopped until it may grant again. Meanwhile it
   * answers `delayed`, and what the backup did not know is forgotten: leases, sessions, request ids, never tokens.
   */
  readonly quiet?: readonly { readonly from: number; readonly to: number }[];
  /**
   * When one of several places that share the leases was gone, or could not reach them: whose turn it is was perhaps not
   * known then, and nobody is accused of being late.
   */
  readonly upsets?: readonly { readonly from: number; readonly to: number }[];
  /** What is known of the way to the service; where nothing is, nobody is accused of being late. */
  readonly timely?: Timely;
  /** Where the service promises less than a server does. */
  readonly terms?: Terms;
}

/** What a service states that is no single server: several places share the leases. */
export interface Terms {
  /**
   * A place that did not grant a lease counts its time from when it first saw it, and adds this share of the TTL, at
   * least so many ms. Each recorder asks one place all the time.
   */
  readonly margin?: { readonly minMs: number; readonly share: number };
  /** There is no line: who waits looks by itself, at least this often, in ms. */
  readonly lookEveryMs?: number;
  /**
   * The places share one clock, which is coarse and may stand still: leases, sessions and lock delays may last so much longer
   * than they were told to, and what is told to be left of one may be off by as much, in ms. None is ever shorter.
   */
  readonly lateMs?: number;
  /** A free name may be kept for one who waits at another place: who asks meanwhile is told `delayed`. */
  readonly keepsTurns?: boolean;
  /** A repeat of a request renews the lease that it was granted. */
  readonly repeatRenews?: boolean;
  /** What callers need not ask for. */
  readonly without?: readonly Feature[];
}

export type Feature = "sessions" | "force";

export interface Timely {
  /** How long one request, reply or event may be on its way while others pass, in ms. */
  readonly transitMs: number;
  /** A stream that comes back to a place that it was told within this time is not told `reset`, in ms. */
  readonly keptMs: number;
}
