/**
 * I29 in time, judged by the marks of a stream's connections: while one is open and the service answers, each change
 * is told soon, a snapshot is complete soon, and nobody is told to begin anew who was away for a moment only. So a
 * stream that stands still, lags behind or hides a gap behind `reset` is found, which what it tells cannot show.
 */
import type { Violation } from "../check.js";
import { isChange, type Seen, type Timely } from "../history.js";
import { expiredBy, graceMs, heldUntil } from "./holds.js";
import { grantedBy, grantedFrom, isForgotten, type LeaseFacts, type Ledger } from "./ledger.js";
import { at } from "./wording.js";

/** How long a change may take from the reply that tells its caller to a stream, beside the way, in ms. */
const soonMs = 1000;

interface Heard extends Seen {
  readonly index: number;
}

interface Connection {
  readonly opened: Heard;
  readonly heard: Heard[];
  until: number;
}

/** Something that the operations show to have happened between two instants. */
interface Change {
  readonly name: string;
  /** As a stream tells it. */
  readonly key: string;
  readonly says: string;
  readonly from: number;
  readonly by: number;
}

const keyOf = (what: "grant" | "end", name: string, token: number): string => `${what} ${token} ${name}`;

export function checkConnections(ledger: Ledger): Violation[] {
  const { timely, seen } = ledger.history;
  if (timely === undefined) return [];
  const changes = [...ledger.names.values()].flatMap(({ leases }) =>
    leases.flatMap((lease) => changesOf(lease, ledger)),
  );
  return [...connectionsIn(seen)].flatMap(([stream, connections]) =>
    new Follower(stream, connections, ledger, timely).judged(changes),
  );
}

function connectionsIn(seen: readonly Seen[]): Map<string, Connection[]> {
  const streams = new Map<string, Connection[]>();
  seen.forEach((one, index) => {
    const heard = { ...one, index };
    const connections = streams.get(one.stream) ?? [];
    const last = connections.at(-1);
    if (one.event === "opened") {
      streams.set(one.stream, connections);
      connections.push({ opened: heard, heard: [], until: Number.POSITIVE_INFINITY });
    } else if (one.event !== "closed") last?.heard.push(heard);
    else if (last !== undefined) last.until = one.at;
  });
  return streams;
}

function changesOf(lease: LeaseFacts, { history }: Ledger): Change[] {
  const { token, releases, mayProlong } = lease;
  const { name } = lease.name;
  const grant: Change = {
    name,
    key: keyOf("grant", name, token),
    says: `the grant of token ${token} of ${name}`,
    from: grantedFrom(lease),
    by: grantedBy(lease),
  };
  const done = releases.filter(({ reply }) => reply.kind === "done").map(({ ended }) => ended);
  // A lease that ran out is over for everybody within the grace.
  const expired = mayProlong.length > 0 ? Number.POSITIVE_INFINITY : expiredBy(lease, history) + graceMs;
  const by = Math.min(...done, expired);
  if (by === Number.POSITIVE_INFINITY) return [grant];
  const says = `the end of token ${token} of ${name}`;
  return [grant, { name, key: keyOf("end", name, token), says, from: heldUntil(lease, history), by }];
}

class Follower {
  /** By change: when it was told first. */
  readonly #told = new Map<string, number>();
  /** When snapshots were complete. */
  readonly #synced: readonly number[];
  readonly #violations: Violation[] = [];
  readonly #boundMs: number;

  constructor(
    readonly stream: string,
    readonly connections: readonly Connection[],
    readonly ledger: Ledger,
    readonly timely: Timely,
  ) {
    this.#boundMs = soonMs + timely.transitMs;
    const all = connections.flatMap(({ heard }) => heard);
    this.#synced = all.filter(({ event }) => event === "synced").map(({ at }) => at);
    for (const { event, name, token, at } of all) {
      if (event === "renewed" || !isChange(event)) continue;
      const key = keyOf(event === "acquired" ? "grant" : "end", name, token);
      if (!this.#told.has(key)) this.#told.set(key, at);
    }
  }

  judged(changes: readonly Change[]): readonly Violation[] {
    this.#checkResets();
    for (const connection of this.connections) this.#checkSnapshot(connection);
    // One is enough for each connection: what stands still leaves out everything that follows.
    const accused = new Set<Connection>();
    for (const change of changes) {
      const late = this.#lateIn(change);
      if (late === null || accused.has(late.connection)) continue;
      accused.add(late.connection);
      const told = this.#told.get(change.key);
      const how = told === undefined ? "never told" : `told at ${at(told)}`;
      this.#accuse(
        late.connection.opened,
        change.name,
        `${change.says} was known by ${at(change.by)}, and due by ${at(late.due)} on a stream that was open; it was ${how}`,
      );
    }
    return this.#violations;
  }

  /** The first connection that lasted long enough to tell of the change, where it did not. */
  #lateIn({ name, key, from, by }: Change): { connection: Connection; due: number } | null {
    const told = this.#told.get(key) ?? Number.POSITIVE_INFINITY;
    // Nothing is due sooner than that.
    if (told <= by + this.#boundMs) return null;
    for (const connection of this.connections) {
      const { opened, until } = connection;
      if (until < by || !name.startsWith(opened.name)) continue;
      const due = this.#due(opened, Math.max(by, opened.at));
      if (due > until) continue;
      // What came before a snapshot is in it, or was over.
      const isShown = this.#synced.some((synced) => synced >= from && synced <= due);
      return told <= due || isShown ? null : { connection, due };
    }
    return null;
  }

  /** A stream that goes on from no place shows first what is there. */
  #checkSnapshot({ opened, heard, until }: Connection): void {
    if (opened.id !== null) return;
    const due = this.#due(opened, opened.at);
    const synced = heard.find(({ event }) => event === "synced");
    // A history that ends before says nothing, also of a stream that is still open then.
    if (due < Number.POSITIVE_INFINITY && due <= until && (synced === undefined || synced.at > due))
      this.#accuse(opened, opened.name, `its snapshot was due by ${at(due)}, and was not complete`);
  }

  /** A place that was told a moment ago is known, but to a service that was brought back from a backup. */
  #checkResets(): void {
    let last: Heard | null = null;
    for (const { opened, heard } of this.connections)
      heard.forEach((one, nth) => {
        const since = last?.at ?? Number.NEGATIVE_INFINITY;
        const awayMs = (nth === 0 ? opened.at : one.at) - since;
        if (
          one.event === "reset" &&
          awayMs <= this.timely.keptMs &&
          !isForgotten(this.ledger.history, since, one.at)
        )
          this.#accuse(
            one,
            opened.name,
            `was told to begin anew at ${at(one.at)}, ${Math.round(awayMs)} ms after it had heard ${last?.id}`,
          );
        if (one.id !== null) last = one;
      });
  }

  #due({ recorder }: Heard, from: number): number {
    return this.ledger.pulses.after(recorder, from, this.#boundMs);
  }

  #accuse(shown: Heard, name: string, says: string): void {
    this.#violations.push({
      invariant: "I29",
      name,
      says: `watch ${this.stream}: ${says}`,
      operations: [shown.index],
    });
  }
}
