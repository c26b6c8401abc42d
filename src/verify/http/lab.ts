/**
 * The lab over HTTP: callers with bearer tokens against a running service, through connections that stay open. It
 * writes the history, keeps within a pace, and knows what its callers still hold, so that it can give it back.
 */
import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import {
  type Call,
  type History,
  isChange,
  type Operation,
  type Reply,
  type Terms,
  type Timely,
} from "../history.js";
import type { Caller, Lab, OnLeave } from "../lab.js";
import { Recorder } from "../recorder.js";
import { seeded } from "../seed.js";
import { monotonicMs, sleep } from "./clock.js";
import { Contact } from "./contact.js";
import { follow } from "./events.js";
import { Exchange, type Heard } from "./exchange.js";
import { addNodeType, removeNodeType } from "./node-type.js";
import { Pace } from "./pace.js";
import { type Ids, replyFrom, requestFor } from "./replies.js";

/** Somebody that the service knows by a bearer token. */
export interface Principal {
  readonly name: string;
  readonly bearer: string;
}

export interface HttpLabOptions {
  readonly url: string;
  /** At least one; callers are spread over them. */
  readonly principals: readonly Principal[];
  /** Who forces a release, if not the caller itself. */
  readonly operator?: Principal;
  /** Who may change the policy of the work graph, if not the operator. */
  readonly admin?: Principal;
  /** Where it works, if not in the space of the bearer tokens. */
  readonly space?: string | null;
  readonly prefix: string;
  readonly seed: number;
  readonly over: AbortSignal;
  /** Aborted when nobody may wait any longer: calls under way are cut, and no other is sent. */
  readonly ends?: AbortSignal;
  /** Shared by labs that run at once. */
  readonly pace?: Pace;
  /** Shared by labs that run at once. */
  readonly contact?: Contact;
  /** Nobody else works in the space: see Lab. */
  readonly isAlone?: boolean;
  /** Where the service promises less than a server does. */
  readonly terms?: Terms | undefined;
  /** Which share of a workload's processes is to run: see Lab. */
  readonly crewShare?: number | undefined;
  /** How long a reply may take, beyond the time that the call itself waits. */
  readonly timeoutMs?: number;
  readonly clockBoundMs?: number;
}

/** Far above what a healthy service takes, and short enough to go on after a lost reply. */
const timeoutDefaultMs = 5000;
/** Half a percent over the longest lease of a workload, and the rounding of a millisecond on either side. */
const clockBoundDefaultMs = 20;
/**
 * A packet that is lost and sent again takes a fraction of a second. Three seconds of changes are well within what a
 * server keeps by default (an hour, or 100,000 of them).
 */
export const timely: Timely = { transitMs: 500, keptMs: 3000 };
/** Calls a second and at once, where no pace is given. */
const paceDefault = { callsPerSecond: 2000, inFlightMax: 256 };
/** Each process has one call at a time under way, and streams come on top. */
const connectionsMax = 512;
/** What a caller hears of a call that was not made. It is no operation. */
const ended: Reply = { kind: "refused", code: "unsent: the run has ended" };

export class HttpLab implements Lab {
  readonly prefix: string;
  readonly isAlone: boolean;
  readonly terms: Terms | undefined;
  readonly crewShare: number | undefined;
  readonly over: AbortSignal;
  readonly random: () => number;
  readonly now = monotonicMs;
  readonly sleep = sleep;
  readonly recorder: Recorder;
  readonly #exchange: Exchange;
  readonly #pace: Pace;
  readonly #contact: Contact;
  /** Aborted when there is no more time to clean up; null: that has not begun. */
  #leaving: AbortSignal | null = null;
  readonly #ids = new StandIns();
  readonly #custody = new Custody();
  /** By stream: the last event that was heard. */
  readonly #lastIds = new Map<string, string | null>();
  #labels = 0;
  readonly #nodeTypes: string[] = [];

  constructor(readonly options: HttpLabOptions) {
    this.prefix = options.prefix;
    this.isAlone = options.isAlone === true;
    this.terms = options.terms;
    this.crewShare = options.crewShare;
    this.over = options.over;
    setMaxListeners(0, this.over); // every process listens while it sleeps
    this.random = seeded(options.seed);
    this.recorder = new Recorder(options.clockBoundMs ?? clockBoundDefaultMs, timely, options.terms);
    this.#exchange = new Exchange(options.url, connectionsMax, options.space);
    this.#pace = options.pace ?? new Pace(paceDefault);
    this.#contact = options.contact ?? new Contact();
    if (options.ends !== undefined) setMaxListeners(0, options.ends);
    options.ends?.addEventListener("abort", () => this.#exchange.close(), { once: true });
  }

  caller(process: string, who: number): Caller {
    const { principals } = this.options;
    const principal = principals[who % principals.length];
    if (principal === undefined) throw new Error("a lab needs a principal");
    return {
      process,
      principal: principal.name,
      call: (call, onLeave) => this.#call(process, who, principal, call, onLeave),
    };
  }

  async watch(stream: string, prefix: string, signal: AbortSignal): Promise<number> {
    let told = 0;
    const following = {
      stream,
      prefix,
      bearer: this.options.principals[0]?.bearer ?? "",
      lastId: this.#lastIds.get(stream) ?? null,
      saw: (seen: Parameters<Recorder["saw"]>[0]) => {
        if (isChange(seen.event)) told++;
        this.recorder.saw(seen);
      },
      begin: (until: AbortSignal) => this.#pace.begin(until),
      hushed: (ms: number) => {
        this.#contact.note({ kind: "reply", status: 429, body: null, retryAfterMs: ms }, stream, this.now());
        this.#pace.hush(ms);
      },
    };
    await follow(this.#exchange, following, signal);
    this.#lastIds.set(stream, following.lastId);
    return told;
  }

  get nodeType(): Lab["nodeType"] {
    const admin = this.options.admin ?? this.options.operator;
    if (admin === undefined) return undefined;
    return async () => {
      const type = await addNodeType(this.#exchange, admin);
      this.#nodeTypes.push(type);
      return type;
    };
  }

  history(): History {
    return this.recorder.history();
  }

  /**
   * Gives back what callers were granted and did not let go of; the rest has run out. Begins nothing after `until`:
   * then what is left runs out as well.
   */
  async letGo(until = Number.POSITIVE_INFINITY): Promise<void> {
    this.#leaving = endingAt(until - this.now());
    const caller = (who: number): Caller => this.caller(`clean-up-${who}`, who);
    for (const { who, session } of this.#custody.sessions())
      if (this.now() < until) await caller(who).call({ op: "end", session });
    for (const { who, name, lease } of this.#custody.leases(this.now()))
      if (this.now() < until) await caller(who).call({ op: "release", name, lease });
    const admin = this.options.admin ?? this.options.operator;
    for (const type of this.#nodeTypes.splice(0))
      if (admin !== undefined && this.now() < until) await removeNodeType(this.#exchange, admin, type);
  }

  close(): void {
    this.#exchange.close();
  }

  async #call(
    process: string,
    who: number,
    principal: Principal,
    call: Call,
    onLeave?: OnLeave,
  ): Promise<Reply> {
    const { operator, timeoutMs = timeoutDefaultMs } = this.options;
    const { bearer } = call.op === "force" ? (operator ?? principal) : principal;
    const waitMs = "waitMs" in call ? call.waitMs : 0;
    const label = this.#labelOf(process, call);
    const asked = requestFor(call, this.#ids, label);
    const noted = call.op === "acquire" ? { ...call, label } : call;
    await this.#pace.begin(this.#leaving ?? this.options.ends);
    const ask = async (): Promise<Reply> => {
      if (this.#isEnded) return ended;
      const began = this.now();
      const asking = this.recorder.asking({ process, principal: principal.name, call: noted, began });
      const limits = { timeoutMs: timeoutMs + waitMs, signal: onLeave?.() };
      const heard = await this.#exchange.ask(bearer, asked, limits);
      asking.over();
      this.#noteHeard(heard, principal.name, began);
      const reply = replyFrom(call, heard, this.#ids);
      // The service never heard of it.
      if (heard.kind === "unsent") return reply;
      const endedAt = reply.kind === "unknown" ? Number.POSITIVE_INFINITY : this.now();
      const operation = { process, principal: principal.name, call: noted, began, ended: endedAt, reply };
      this.recorder.operation(operation);
      this.#custody.note(who, operation);
      return reply;
    };
    return waitMs > 0 ? ask() : this.#pace.during(ask);
  }

  /** Until it is time to clean up: that is done in the time that it is given. */
  get #isEnded(): boolean {
    return (this.#leaving ?? this.options.ends)?.aborted === true;
  }

  #noteHeard(heard: Heard, principal: string, began: number): void {
    this.#contact.note(heard, principal, began);
    if (heard.kind === "unsent" && heard.why !== "cut") this.#pace.missed();
    if (heard.kind !== "reply") return;
    this.#pace.answered();
    if (heard.status === 429) this.#pace.hush(heard.retryAfterMs);
    else this.#pace.taken();
  }

  /**
   * The same for every copy of a request, as the request id covers it; else never the same, so that no holder is
   * taken for another where a bearer token is reentrant.
   */
  #labelOf(process: string, call: Call): string {
    const requestId = call.op === "acquire" ? call.requestId : null;
    return `holdfast verify: ${requestId ?? `${this.prefix}${process} ${++this.#labels}`}`;
  }
}

/** Aborted after that time; one that never comes, never. */
const endingAt = (ms: number): AbortSignal =>
  ms === Number.POSITIVE_INFINITY
    ? new AbortController().signal
    : AbortSignal.timeout(Math.max(0, Math.ceil(ms)));

/** Stand-ins are hashes, so that several labs give an id the same one. */
export class StandIns implements Ids {
  readonly #ids = new Map<string, string>();

  hide = (id: string): string => {
    const standIn = createHash("sha256").update(id).digest("hex").slice(0, 12);
    this.#ids.set(standIn, id);
    return standIn;
  };

  /** What never was an id here goes as it is: a caller may try what it was not given. */
  reveal = (standIn: string): string => this.#ids.get(standIn) ?? standIn;
}

interface Kept {
  readonly who: number;
  readonly name: string;
  readonly endsAt: number;
}

/** What callers hold as far as they were told. */
class Custody {
  readonly #leases = new Map<string, Kept>();
  readonly #sessions = new Map<string, number>();

  note(who: number, { call, reply, ended }: Operation): void {
    if (reply.kind === "opened") this.#sessions.set(reply.session, who);
    if ("name" in call && reply.kind === "granted")
      this.#leases.set(reply.lease, { who, name: call.name, endsAt: ended + reply.leftMs });
    if (reply.kind !== "done" && reply.kind !== "lost" && reply.kind !== "gone") return;
    if ((call.op === "release" || call.op === "renew") && reply.kind !== "gone")
      this.#leases.delete(call.lease);
    if (call.op === "end" || reply.kind === "gone")
      if ("session" in call && call.session !== null) this.#sessions.delete(call.session);
  }

  leases(now: number): { who: number; name: string; lease: string }[] {
    return [...this.#leases]
      .filter(([, { endsAt }]) => endsAt > now)
      .map(([lease, { who, name }]) => ({ who, name, lease }));
  }

  sessions(): { who: number; session: string }[] {
    return [...this.#sessions].map(([session, who]) => ({ who, session }));
  }
}
