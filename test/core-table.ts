/**
 * Reads tables that state the lease rules, one call per row, and checks each answer:
 *
 *     t=0  acquire k a ttl=10 | granted 1 until=10
 *     t=11 acquire k b ttl=10 | granted 2 events=expired:k:1+acquired:k:2
 *
 * Times and durations are seconds. Left of the bar: a verb, its subject, who calls, options. Right of it: the
 * answer, word for word, then facts of the answer that this row is about. `a/2` is a second caller with the
 * bearer token of `a`. A lease is called by the caller who got it, or by the `as=` of its acquire. A row without
 * `t=` happens at the time of the row before it; `#` starts a remark.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideAcquire, decideAcquireFirst } from "../src/core/acquire.js";
import { acquireKeys } from "../src/core/heirs.js";
import { decideInspect, decideServe } from "../src/core/inspect.js";
import { floorKey, lockKey, sessionKey } from "../src/core/keys.js";
import type { Claim } from "../src/core/lease.js";
import type { Policy } from "../src/core/limits.js";
import type { Metadata, Outcome } from "../src/core/records.js";
import type { Holding, Refusal } from "../src/core/refusal.js";
import { decideForceRelease, decideRelease } from "../src/core/release.js";
import { decideExtend, decideRenew, decideRenewMany, leaseCallKeys } from "../src/core/renew.js";
import {
  decideDrainSession,
  decideEndSession,
  decideInspectSession,
  decideKeepalive,
  decideStartSession,
} from "../src/core/session.js";
import { decideClean, decideSweep } from "../src/core/sweep.js";
import {
  type Answer,
  Call,
  facts,
  holdingFacts,
  parseMetadata,
  previousFacts,
  principalOf,
  refused,
  sessionFacts,
  toMs,
  toSeconds,
  yes,
} from "./core-rows.js";
import { deepFreeze, type Step, World } from "./core-world.js";

export class Table {
  readonly world: World;
  readonly #leaseIds = new Map<string, string>();
  #made = 0;

  constructor(policy?: Policy) {
    this.world = new World(policy);
  }

  run(rows: readonly string[]): void {
    for (const [nth, row] of rows.entries()) {
      if (row.trimStart().startsWith("#")) continue;
      try {
        this.#row(row);
      } catch (error) {
        if (error instanceof Error) error.message = `row ${nth + 1}: ${row}\n${error.message}`;
        throw error;
      }
    }
  }

  #row(row: string): void {
    const [left = "", right = ""] = row.split("|").map((side) => side.trim());
    const timed = /^t=(\S+)\s+(.*)$/.exec(left);
    if (timed?.[1] !== undefined) this.world.now = toMs(timed[1]);
    const call = new Call(timed?.[2] ?? left);
    const answer = this.#answer(call);
    call.checkUsed();
    const words = right.split(/\s+/);
    const stated = words.filter((word) => word.includes("="));
    const heard = stated.map((word) => {
      const fact = word.slice(0, word.indexOf("="));
      return `${fact}=${answer.facts[fact] ?? "none"}`;
    });
    const text = words.filter((word) => !word.includes("=")).join(" ");
    assert.equal([answer.text, ...heard].join(" "), [text, ...stated].join(" "));
  }

  #answer(call: Call): Answer {
    const answers: Record<string, (call: Call) => Answer> = {
      acquire: (c) => this.#acquire(c, false),
      wait: (c) => this.#acquire(c, true),
      leave: (c) => this.#leave(c),
      first: (c) => this.#first(c),
      renew: (c) => this.#renew(c),
      "renew-many": (c) => this.#renewMany(c),
      extend: (c) => this.#extend(c),
      release: (c) => this.#release(c),
      force: (c) => this.#force(c),
      inspect: (c) => this.#inspect(c),
      serve: (c) => this.#serve(c),
      session: (c) => this.#session(c),
      keepalive: (c) => this.#sessionCall(c, decideKeepalive),
      look: (c) => this.#sessionCall(c, decideInspectSession),
      end: (c) => this.#sessionCall(c, decideEndSession),
      drain: (c) => this.#drain(c),
      sweep: () => this.#sweep(),
      clean: () => this.#clean(),
      restored: (c) => this.#restored(c),
    };
    const answer = answers[call.verb];
    assert.ok(answer !== undefined, `no such verb: ${call.verb}`);
    return answer(call);
  }

  #claim(call: Call, name: string): Claim {
    const who = call.word(1);
    const request = call.text("request");
    const proof = call.text("proof");
    const [delayMs, ttlMs, sessionId] = [call.ms("delay") ?? 0, call.ms("ttl"), call.text("session")];
    const metadata: Metadata = parseMetadata(call.text("meta"));
    const print = call.text("print") ?? JSON.stringify([call.word(0), ttlMs, metadata, sessionId]);
    return deepFreeze({
      space: call.text("space") ?? "default",
      name,
      principal: principalOf(who),
      owner: call.text("owner"),
      metadata,
      ttlMs,
      delayMs,
      sessionId,
      leaseId: `lease-${++this.#made}`,
      proof: proof === null ? null : this.#leaseId(proof, name),
      reentrant: call.words.includes("reentrant"),
      request: request === null ? null : { id: request, fingerprint: print },
    });
  }

  /** The lease that was granted under this label, or the label itself: a made-up id. */
  #leaseId(label: string, name: string): string {
    return this.#leaseIds.get(`${label} ${name}`) ?? this.#leaseIds.get(label) ?? label;
  }

  #granted(label: string, who: string, holding: Holding): void {
    const { name, lease } = holding.lock;
    this.#leaseIds.set(label, lease.id);
    this.#leaseIds.set(`${who} ${name}`, lease.id);
  }

  #acquire(call: Call, waits: boolean): Answer {
    const { world } = this;
    const claim = this.#claim(call, call.word(0));
    const label = call.text("as") ?? claim.leaseId;
    if (waits) {
      world.join(claim);
      this.#leaseIds.set(label, claim.leaseId);
      this.#leaseIds.set(`${call.word(1)} ${claim.name}`, claim.leaseId);
    }
    const step = world.step(
      acquireKeys(claim),
      (view) => decideAcquire(view, claim, world.policy, world.successors, waits),
      (reply) => reply.heirs,
    );
    const { outcome } = step.reply;
    if ("refused" in outcome) return refused(outcome, step);
    world.leave(claim);
    this.#granted(label, call.word(1), outcome.granted);
    const how = outcome.how === "new" ? "granted" : outcome.how;
    return {
      text: `${how} ${outcome.granted.lock.token}`,
      facts: { ...holdingFacts(outcome.granted), ...facts(step) },
    };
  }

  #leave(call: Call): Answer {
    const leaving = this.world.queues
      .get(`default/${call.word(0)}`)
      ?.find((claim) => claim.principal === principalOf(call.word(1)));
    assert.ok(leaving !== undefined, "nobody to leave");
    this.world.leave(leaving);
    return { text: "left", facts: {} };
  }

  #first(call: Call): Answer {
    const { world } = this;
    const claims = call
      .word(0)
      .split(",")
      .map((name) => this.#claim(call, name));
    const step = world.step(
      claims.flatMap(acquireKeys),
      (view) => decideAcquireFirst(view, claims, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    const { granted, refusals } = step.reply;
    const why = refusals.map(({ name, refusal }) => `${name}:${refusal.refused}`).join("+");
    if (granted === null) return { text: "refused", facts: { refused: why, ...facts(step) } };
    this.#granted(claims[0]?.leaseId ?? "", call.word(1), granted.granted);
    return {
      text: `${granted.how === "new" ? "granted" : granted.how} ${granted.granted.lock.token}`,
      facts: {
        ...holdingFacts(granted.granted),
        on: granted.granted.lock.name,
        refused: why || "none",
        ...facts(step),
      },
    };
  }

  #leaseCall(call: Call, name = call.word(0)) {
    const [who, label] = [call.word(1), call.text("lease")];
    return {
      space: call.text("space") ?? "default",
      name,
      principal: principalOf(who),
      leaseId: this.#leaseId(label ?? who, name),
    };
  }

  #renew(call: Call): Answer {
    const { world } = this;
    const progress = call.text("progress");
    const renewal = {
      ...this.#leaseCall(call),
      ttlMs: call.ms("ttl"),
      ...(progress === null ? {} : { progress }),
    };
    const step = world.step(
      leaseCallKeys(renewal),
      (view) => decideRenew(view, renewal, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    return this.#renewed(step, step.reply.outcome);
  }

  #renewMany(call: Call): Answer {
    const { world } = this;
    const calls = call
      .word(0)
      .split(",")
      .map((name) => ({ ...this.#leaseCall(call, name), ttlMs: null }));
    const step = world.step(
      calls.flatMap(leaseCallKeys),
      (view) => decideRenewMany(view, calls, world.policy, world.successors),
      (replies) => replies.flatMap((reply) => reply.heirs),
    );
    const each = step.reply.map(({ outcome }) => ("refused" in outcome ? outcome.refused : "renewed"));
    return { text: each.join(" "), facts: facts(step) };
  }

  #extend(call: Call): Answer {
    const { world } = this;
    const extension = { ...this.#leaseCall(call), ttlMs: call.needMs("ttl") };
    const step = world.step(
      leaseCallKeys(extension),
      (view) => decideExtend(view, extension, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    return this.#renewed(step, step.reply.outcome);
  }

  #renewed(
    step: Step<unknown>,
    outcome: { readonly renewed: Holding; readonly capped: boolean } | Refusal,
  ): Answer {
    if ("refused" in outcome) return refused(outcome, step);
    return {
      text: `renewed ${outcome.renewed.lock.token}`,
      facts: { ...holdingFacts(outcome.renewed), capped: yes(outcome.capped), ...facts(step) },
    };
  }

  #release(call: Call): Answer {
    const { world } = this;
    const named = call.text("call");
    const release = {
      ...this.#leaseCall(call),
      outcome: call.text("outcome") as Outcome["outcome"] | null,
      note: call.text("note"),
      repeatable: call.words.includes("repeatable"),
      ...(named === null ? {} : { call: named }),
    };
    const step = world.step(
      leaseCallKeys(release),
      (view) => decideRelease(view, release, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    const { outcome } = step.reply;
    if ("refused" in outcome) return refused(outcome, step);
    return { text: outcome.repeat ? "released before" : "released", facts: facts(step) };
  }

  #force(call: Call): Answer {
    const { world } = this;
    const [space, name, by] = [call.text("space") ?? "default", call.word(0), call.word(1)];
    const reason = call.text("reason") ?? "";
    const force = {
      space,
      name,
      by,
      reason,
      auditId: `audit-${++this.#made}`,
      wallAt: 1_000_000 + world.now,
    };
    const step = world.step(
      [lockKey(space, name), floorKey(space)],
      (view) => decideForceRelease(view, force, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    const { ended } = step.reply;
    return {
      text: ended === null ? "nothing to end" : `ended ${ended.token}`,
      facts: {
        how: ended?.how ?? "none",
        by: ended?.by ?? "none",
        reason: ended?.reason ?? "none",
        ...facts(step),
      },
    };
  }

  #inspect(call: Call): Answer {
    const { world } = this;
    const [space, name] = [call.text("space") ?? "default", call.word(0)];
    const step = world.step(
      [lockKey(space, name), floorKey(space)],
      (view) => decideInspect(view, space, name, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    const { lock, holding, token } = step.reply;
    return {
      text: `${holding === null ? "free" : "held"} ${token}`,
      facts: {
        ...(holding === null ? {} : holdingFacts(holding)),
        attempts: lock?.attempts ?? 0,
        outcome: lock?.outcome?.outcome ?? "none",
        available: toSeconds(lock?.availableAt ?? 0),
        due: toSeconds(lock?.dueAt ?? 0),
        ...previousFacts(lock?.previous ?? null),
        ...facts(step),
      },
    };
  }

  #serve(call: Call): Answer {
    const { world } = this;
    const [space, name] = [call.text("space") ?? "default", call.word(0)];
    const step = world.step(
      [lockKey(space, name), floorKey(space)],
      (view) => decideServe(view, space, name, world.policy, world.successors),
      (heirs) => heirs,
    );
    return { text: "served", facts: facts(step) };
  }

  #session(call: Call): Answer {
    const { world } = this;
    const id = call.word(0);
    const start = {
      id,
      hash: `#${id}`,
      space: call.text("space") ?? "default",
      principal: principalOf(call.word(1)),
      metadata: null,
      ttlMs: call.needMs("ttl"),
    };
    const step = world.step([sessionKey(start.space, id), floorKey(start.space)], (view) =>
      decideStartSession(view, start, world.policy),
    );
    return { text: "session", facts: { ...sessionFacts(step.reply), ...facts(step) } };
  }

  #sessionCall(call: Call, decide: typeof decideKeepalive): Answer {
    const { world } = this;
    const [id, who, space] = [call.word(0), call.word(1), call.text("space") ?? "default"];
    const step = world.step([sessionKey(space, id)], (view) =>
      decide(view, { space, id, principal: principalOf(who) }, world.policy),
    );
    if ("refused" in step.reply) return refused(step.reply, step);
    const { ended } = step.reply.session;
    return {
      text: ended === null ? "session" : `session ${ended.how}`,
      facts: { ...sessionFacts(step.reply), ...facts(step) },
    };
  }

  #drain(call: Call): Answer {
    const { world } = this;
    const key = sessionKey(call.text("space") ?? "default", call.word(0));
    const step = world.step(
      [key],
      (view) => decideDrainSession(view, key, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    return { text: "drained", facts: { more: yes(step.reply.more), ...facts(step) } };
  }

  #sweep(): Answer {
    const { world } = this;
    const step = world.step(
      [],
      (view) => decideSweep(view, world.policy, world.successors),
      (reply) => reply.heirs,
    );
    return { text: `swept ${step.reply.settled}`, facts: { more: yes(step.reply.more), ...facts(step) } };
  }

  #clean(): Answer {
    const step = this.world.step([], (view) => decideClean(view, this.world.policy));
    return { text: `cleaned ${step.reply.removed}`, facts: { more: yes(step.reply.more), ...facts(step) } };
  }

  /** A restored copy: tokens jump, nothing is granted until it has been quiet for long enough. */
  #restored(call: Call): Answer {
    const [space, token, quietUntil] = ["default", Number(call.text("floor") ?? 0), call.needMs("quiet")];
    this.world.put(floorKey(space), { kind: "floor", space, token, ttlHighMs: 0, quietUntil });
    return { text: "restored", facts: {} };
  }
}

/** One test: a rule in words, and the rows that show it. */
export function rule(sentence: string, rows: readonly string[], policy?: Policy): void {
  test(sentence, () => new Table(policy).run(rows));
}
