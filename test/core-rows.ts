/** The words of a rule table: what stands left of the bar, and how answers are put into words for its right. */
import assert from "node:assert/strict";
import type { Heir } from "../src/core/heirs.js";
import type { Key } from "../src/core/keys.js";
import { isLeaseEvent, type Metadata } from "../src/core/records.js";
import type { Holding, Refusal } from "../src/core/refusal.js";
import type { SessionReply } from "../src/core/session.js";
import type { Step } from "./core-world.js";

export type Facts = Record<string, string | number>;
export interface Answer {
  readonly text: string;
  readonly facts: Facts;
}

/** One call: its subject, its caller, its options. */
export class Call {
  readonly verb: string;
  readonly words: readonly string[];
  readonly #options = new Map<string, string>();
  readonly #asked = new Set<string>();

  constructor(text: string) {
    const [verb = "", ...rest] = text.split(/\s+/);
    this.verb = verb;
    this.words = rest.filter((word) => !word.includes("="));
    for (const word of rest) {
      const at = word.indexOf("=");
      if (at > 0) this.#options.set(word.slice(0, at), word.slice(at + 1));
    }
  }

  word(nth: number): string {
    const word = this.words[nth];
    assert.ok(word !== undefined, `${this.verb}: a word is missing`);
    return word;
  }

  text(option: string): string | null {
    this.#asked.add(option);
    return this.#options.get(option) ?? null;
  }

  ms(option: string): number | null {
    const text = this.text(option);
    return text === null ? null : toMs(text);
  }

  needMs(option: string): number {
    const ms = this.ms(option);
    assert.ok(ms !== null, `${this.verb}: ${option}= is missing`);
    return ms;
  }

  checkUsed(): void {
    for (const option of this.#options.keys())
      assert.ok(this.#asked.has(option), `${this.verb}: unknown option ${option}=`);
  }
}

export const toMs = (seconds: string): number => Math.round(Number(seconds) * 1000);
export const toSeconds = (ms: number): string => String(ms / 1000);
export const principalOf = (who: string): string => who.split("/")[0] ?? who;
export const yes = (flag: boolean): string => (flag ? "yes" : "no");

export function parseMetadata(text: string | null): Metadata {
  return text?.startsWith("{") ? (JSON.parse(text) as { [key: string]: unknown }) : text;
}

export function holdingFacts({ lock, expiresAt }: Holding): Facts {
  const { principal, sessionHash, metadata, since, ttlMs, progress, owner } = lock.lease;
  return {
    by: principal,
    session: sessionHash ?? "none",
    meta: typeof metadata === "string" ? metadata : JSON.stringify(metadata),
    since: toSeconds(since),
    until: toSeconds(expiresAt),
    token: lock.token,
    ttl: ttlMs === null ? "none" : toSeconds(ttlMs),
    progress: progress ?? "none",
    owner: owner ?? "none",
  };
}

export function previousFacts(
  previous: { how: string; principal: string; by: string | null; endedAt: number } | null,
): Facts {
  if (previous === null) return {};
  const by = previous.by === null ? "" : `:${previous.by}`;
  return { previous: `${previous.how}:${previous.principal}${by}`, ended: toSeconds(previous.endedAt) };
}

export const sessionFacts = ({ session }: SessionReply): Facts => ({
  until: toSeconds(session.expiresAt),
  leases: session.leases,
  due: toSeconds(session.dueAt),
});

/** What every step tells: its events, its writes, the waiters whose wait it ended. */
export function facts(step: Step<unknown>): Facts {
  const events = step.events.map((event) =>
    isLeaseEvent(event)
      ? `${event.type}:${event.name}:${event.token}`
      : `${event.type}:${event.type === "line" ? event.name : event.id}`,
  );
  return {
    events: events.join("+") || "none",
    writes: step.writes.length,
    kinds: step.writes.map(({ key }: { key: Key }) => key.split("/")[0]).join("+") || "none",
    heirs: step.heirs.map(heirText).join("+") || "none",
  };
}

function heirText({ claim, outcome }: Heir): string {
  return `${claim.principal}:${"refused" in outcome ? outcome.refused : outcome.granted.lock.token}`;
}

export function refused(refusal: Refusal, step: Step<unknown>): Answer {
  const more: Facts = facts(step);
  if ("holding" in refusal && refusal.holding !== null)
    Object.assign(more, holdingFacts(refusal.holding), { on: refusal.holding.lock.name });
  if ("previous" in refusal) Object.assign(more, previousFacts(refusal.previous));
  if ("availableAt" in refusal) Object.assign(more, { at: toSeconds(refusal.availableAt), why: refusal.why });
  if ("again" in refusal) Object.assign(more, { again: yes(refusal.again) });
  if ("endedAt" in refusal) Object.assign(more, { ended: toSeconds(refusal.endedAt) });
  return { text: refusal.refused, facts: more };
}
