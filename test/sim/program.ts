// What callers do in a simulated run: everything that the service offers, in no particular order, on few names and
// for few principals, so that they are in each other's way all the time. Request ids are repeated after lost
// replies, by another process of the same principal, and at times with another body. Now and then somebody tries
// what belongs to another principal.
import type { Call, Reply } from "../../src/verify/history.js";
import type { Caller, Lab } from "../../src/verify/lab.js";
import { type AcquireCall, acquiring, crew } from "../../src/verify/workloads/crew.js";
import type { Chance } from "./chance.js";

/** How wild a run is; drawn from its seed. */
export interface Temper {
  readonly clients: number;
  readonly callsEach: number;
  readonly principals: number;
  readonly names: readonly string[];
  /** The longest lease. */
  readonly ttlMs: number;
  readonly streams: number;
}

const plainNames = ["a", "b", "c"];
const pathNames = ["path:src", "path:src/a", "path:src/a/b", "path:doc", "repo:global", "repo:deploy"];

export function temperOf(chance: Chance): Temper {
  const plain = plainNames.slice(0, chance.below(plainNames.length + 1));
  const paths =
    chance.happens(0.5) || plain.length === 0
      ? ["path:src", chance.pick(pathNames), chance.pick(pathNames)]
      : [];
  return {
    clients: 3 + chance.below(4),
    callsEach: 25 + chance.below(30),
    principals: 1 + chance.below(3),
    names: [...new Set([...paths, ...plain])].slice(0, 4),
    ttlMs: chance.pick([400, 1000, 2500]),
    streams: chance.below(3),
  };
}

interface Owned {
  readonly name: string;
  readonly lease: string;
}

/** What processes know of each other. */
interface Shared {
  /** Requests, by principal. */
  readonly requests: Map<string, AcquireCall[]>;
  /** Leases and sessions, and whose they are: what strangers try. */
  readonly leases: (Owned & { readonly principal: string })[];
  readonly sessions: { readonly session: string; readonly principal: string }[];
}

export async function program(lab: Lab, chance: Chance, temper: Temper): Promise<void> {
  const shared: Shared = { requests: new Map(), leases: [], sessions: [] };
  await crew(temper.clients, (nth) => new Client(lab, chance.split(), temper, shared, nth).run());
}

class Client {
  readonly #caller: Caller;
  readonly #owned: Owned[] = [];
  #session: string | null = null;
  #requests = 0;

  constructor(
    readonly lab: Lab,
    readonly chance: Chance,
    readonly temper: Temper,
    readonly shared: Shared,
    nth: number,
  ) {
    this.#caller = lab.caller(`client-${nth}`, nth % temper.principals);
  }

  async run(): Promise<void> {
    const { chance, lab, temper } = this;
    for (let left = temper.callsEach; left > 0; left--) {
      await this.#act();
      // Now and then somebody thinks for longer than its leases live.
      const pauseMs = chance.happens(0.06) ? chance.between(1, 2 * temper.ttlMs) : chance.skewed(0.2, 400);
      if (chance.happens(0.7)) await lab.sleep(pauseMs);
    }
  }

  #act(): Promise<unknown> {
    const { chance } = this;
    const owned = this.#owned.at(-1);
    const dice = chance.random();
    if (owned !== undefined && dice < 0.4) return this.#useLease(owned);
    if (dice < 0.48) return this.#call({ op: "read", name: chance.pick(this.temper.names) });
    if (dice < 0.5) return this.#call({ op: "force", name: chance.pick(this.temper.names) });
    if (dice < 0.62) return this.#useSession();
    if (dice < 0.7) return this.#repeatAnother();
    if (dice < 0.74 && this.temper.principals > 1) return this.#trespass();
    return this.#acquire();
  }

  #call(call: Call): Promise<Reply> {
    return this.#caller.call(call);
  }

  async #useLease({ name, lease }: Owned): Promise<void> {
    const { chance } = this;
    const wrong = chance.happens(0.05);
    const named = wrong ? "l0" : lease;
    if (chance.happens(0.5)) {
      const ttlMs = chance.happens(0.3) ? this.#ttlMs() : null;
      const reply = await this.#call({ op: "renew", name, lease: named, ttlMs });
      if (reply.kind === "lost" && !wrong && chance.happens(0.8)) this.#forget(lease);
      return;
    }
    const reply = await this.#call({ op: "release", name, lease: named });
    // Some go on as if nothing had happened: an old lease must harm nobody.
    if (!wrong && (reply.kind === "done" || reply.kind === "lost") && chance.happens(0.8))
      this.#forget(lease);
  }

  #forget(lease: string): void {
    const at = this.#owned.findIndex((owned) => owned.lease === lease);
    if (at >= 0) this.#owned.splice(at, 1);
  }

  async #useSession(): Promise<void> {
    const { chance } = this;
    if (this.#session === null) {
      const reply = await this.#call({ op: "open", ttlMs: this.#ttlMs() });
      if (reply.kind !== "opened") return;
      this.#session = reply.session;
      this.shared.sessions.push({ session: reply.session, principal: this.#caller.principal });
      return;
    }
    const ends = chance.happens(0.15);
    const reply = await this.#call({ op: ends ? "end" : "keepalive", session: this.#session });
    if ((ends && reply.kind === "done") || reply.kind === "gone")
      if (chance.happens(0.8)) this.#session = null;
  }

  #ttlMs(): number {
    return Math.round(this.chance.between(this.temper.ttlMs / 4, this.temper.ttlMs));
  }

  #waitMs(): number {
    return Math.round(
      this.chance.happens(0.6) ? this.chance.skewed(5, 4000) : this.chance.between(1000, 6000),
    );
  }

  async #acquire(): Promise<void> {
    const { chance } = this;
    const name = chance.pick(this.temper.names);
    const session = chance.happens(0.3) ? this.#session : null;
    const call = acquiring(name, session !== null && chance.happens(0.6) ? null : this.#ttlMs(), {
      waitMs: chance.happens(0.55) ? this.#waitMs() : 0,
      requestId: chance.happens(0.6) ? `${this.#caller.process}-${++this.#requests}` : null,
      session,
      lease: session === null && chance.happens(0.05) ? (this.#owned.at(-1)?.lease ?? null) : null,
      delayMs: chance.happens(0.2) ? Math.round(chance.between(50, 1500)) : 0,
    });
    if (call.requestId !== null) this.#requestsOf().push(call);
    await this.#claim(call, 3);
  }

  #requestsOf(): AcquireCall[] {
    const { principal } = this.#caller;
    const requests = this.shared.requests.get(principal) ?? [];
    this.shared.requests.set(principal, requests);
    return requests;
  }

  /** Asks; after a lost reply again with the same request id, if there is one. */
  async #claim(call: AcquireCall, tries: number): Promise<void> {
    const { chance } = this;
    const reply = await this.#call(call);
    if (reply.kind === "granted") {
      this.#forget(reply.lease);
      const owned = { name: call.name, lease: reply.lease };
      this.#owned.push(owned);
      this.shared.leases.push({ ...owned, principal: this.#caller.principal });
      return;
    }
    if (reply.kind !== "unknown" || call.requestId === null || tries === 0 || chance.happens(0.2)) return;
    await this.lab.sleep(chance.skewed(1, 2000));
    await this.#claim({ ...call, waitMs: chance.happens(0.7) ? call.waitMs : 0 }, tries - 1);
  }

  /** A recent request of this principal, from whichever of its processes. */
  async #repeatAnother(): Promise<void> {
    const { chance } = this;
    const recent = this.#requestsOf().slice(-6);
    if (recent.length === 0) return;
    const call = chance.pick(recent);
    const other = chance.happens(0.1) && call.ttlMs !== null ? { ttlMs: call.ttlMs + 1 } : {};
    await this.#claim({ ...call, ...other }, 1);
  }

  /** Uses a lease or session that was given to another principal, which must do nothing to it. */
  async #trespass(): Promise<void> {
    const { chance, shared } = this;
    const isStrange = ({ principal }: { readonly principal: string }): boolean =>
      principal !== this.#caller.principal;
    const lease = shared.leases.filter(isStrange).at(-1);
    const session = shared.sessions.filter(isStrange).at(-1)?.session;
    if (session !== undefined && chance.happens(0.5)) {
      const op = chance.pick(["keepalive", "end", "acquire"] as const);
      if (op !== "acquire") return void (await this.#call({ op, session }));
      const ttlMs = chance.happens(0.5) ? null : this.#ttlMs();
      return this.#claim(acquiring(chance.pick(this.temper.names), ttlMs, { session }), 0);
    }
    if (lease === undefined) return;
    const { name, lease: proof } = lease;
    const op = chance.pick(["renew", "release", "acquire"] as const);
    if (op === "acquire") return this.#claim(acquiring(name, this.#ttlMs(), { lease: proof }), 0);
    if (op === "release") return void (await this.#call({ op, name, lease: proof }));
    await this.#call({ op, name, lease: proof, ttlMs: null });
  }
}
