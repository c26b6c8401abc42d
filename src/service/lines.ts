/**
 * This server's part in the lines that a cluster shares: it says that it runs, gives up the turns of waiters that left, and
 * looks now and then whether it has as many turns as waiters. Where a server decides alone, nothing of this is needed, and
 * nothing is done.
 */
import { decideLeaveLine } from "../core/inspect.js";
import { everySpace, floorKey, lockKey, peerKey } from "../core/keys.js";
import type { Claim } from "../core/lease.js";
import { type Policy, peerTtlMs } from "../core/limits.js";
import { decideBeat, decideLeave } from "../core/line.js";
import type { Stop, Timer } from "../store/clock.js";
import { Attempts, type Report } from "../store/report.js";
import type { Queues, Waiter } from "./queues.js";
import { heirsOf, type Steps } from "./steps.js";

export interface Name {
  readonly space: string;
  readonly name: string;
}

/** How often a server says that it runs, in ms: a few of these may fail before others take it for gone. */
const beatMs = peerTtlMs / 4;
/** Names whose lines are looked at in one go: they share a read of the store. */
const auditsMax = 200;

export class Lines {
  /** Names in whose lines this server may have turns though nobody waits here any more. */
  readonly #left = new Map<string, Name>();
  readonly #places = new WeakMap<Claim, Promise<number>>();
  readonly #beats: Attempts;
  #audited = 0;
  #stop: Stop | undefined;

  constructor(
    readonly steps: Steps,
    readonly queues: Queues,
    readonly policy: Policy,
    readonly stopping: AbortSignal,
    readonly report: Report,
    readonly after: Timer,
    /** Counts the turns of a name, and takes it if it is ours to take. */
    readonly serve: (space: string, name: string) => Promise<void>,
  ) {
    this.#beats = new Attempts("saying that this server runs", report);
    if (queues.peerId === null) return;
    queues.whenLeft = (waiter) => void this.#places.set(waiter.claim, this.#giveUp(waiter));
    stopping.addEventListener("abort", () => this.#stop?.());
  }

  async start(): Promise<void> {
    const { peerId } = this.queues;
    if (peerId === null) return;
    await this.#say(peerId);
    this.#beatLater(peerId);
  }

  get hasTurns(): boolean {
    return this.#left.size > 0;
  }

  mayHaveTurn(space: string, name: string): boolean {
    return this.#left.has(`${space}/${name}`);
  }

  names(): Iterable<Name> {
    return [...this.#left.values()];
  }

  /** The turns of a name are as many as its waiters here. */
  counted(space: string, name: string): void {
    this.#left.delete(`${space}/${name}`);
  }

  async #giveUp({ claim: { space, name }, turn }: Waiter): Promise<number> {
    if (this.stopping.aborted) return 0; // they all go with the server
    this.#left.set(`${space}/${name}`, { space, name });
    try {
      const { place } = await this.steps.run(
        [lockKey(space, name), floorKey(space), floorKey(everySpace)],
        (view, successors) => decideLeaveLine(view, space, name, turn, this.policy, successors),
        heirsOf,
      );
      this.counted(space, name);
      return place;
    } catch {
      return 0; // the next audit finds it
    }
  }

  /** Where in line somebody stood who has left, from 1; undefined: it has not, or nobody else shares the line. */
  placeOf(claim: Claim): Promise<number> | undefined {
    return this.#places.get(claim);
  }

  #beatLater(peerId: string): void {
    if (this.stopping.aborted) return;
    this.#stop = this.after(beatMs, () => void this.#beat(peerId));
  }

  async #beat(peerId: string): Promise<void> {
    try {
      await this.#say(peerId);
      await this.#audit();
      this.#beats.worked();
    } catch (error) {
      this.#beats.failed(error);
    }
    this.#beatLater(peerId);
  }

  #say(peerId: string): Promise<boolean> {
    return this.steps.store.transact([peerKey(peerId)], (view) => decideBeat(view, peerId, this.policy));
  }

  /**
   * Lines are set right in the steps that change them. What a failure, or a server that was taken for gone, left wrong in some
   * of them is found here, a number of names each time.
   */
  async #audit(): Promise<void> {
    const names = new Map(this.#left);
    for (const { queueName, claim } of this.queues.all()) names.set(queueName, claim);
    const all = [...names.values()];
    const from = all.length === 0 ? 0 : this.#audited % all.length;
    const some = [...all.slice(from), ...all.slice(0, from)].slice(0, auditsMax);
    this.#audited = from + some.length;
    await Promise.all(some.map(({ space, name }) => this.serve(space, name)));
  }

  /** The turn of a waiter may have been used up, and it was not served. */
  recount({ space, name }: Claim): void {
    if (this.queues.peerId === null || this.stopping.aborted) return;
    this.serve(space, name).catch(() => undefined); // the next audit finds it
  }

  async leave(): Promise<void> {
    const { peerId } = this.queues;
    if (peerId === null) return;
    this.#stop?.();
    try {
      await this.steps.store.transact([peerKey(peerId)], (view) => decideLeave(view, peerId, this.policy));
    } catch (error) {
      this.report("saying that this server stops", error);
    }
  }
}
