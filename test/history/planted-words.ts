// Bugs in what is said: the right decision, and an answer or an event that tells something else, or in another order.
import type { Decision } from "../../src/core/decision.js";
import type { FeedEvent } from "../../src/core/records.js";
import type { Holding } from "../../src/core/refusal.js";
import { Engine } from "./engine.js";
import type { Bug } from "./planted.js";
import { Queue, rules, type Waiter } from "./service.js";

type Acquired = ReturnType<typeof rules.acquire> extends Decision<infer Reply> ? Reply : never;

/** Who is refused is told this of the holder. */
const tellingOf = (change: (holding: Holding) => Holding) => ({
  acquire: (...call: Parameters<typeof rules.acquire>): Decision<Acquired> => {
    const decision = rules.acquire(...call);
    if ("need" in decision) return decision;
    const { outcome } = decision.reply;
    if (!("refused" in outcome) || outcome.refused !== "held") return decision;
    const told = { ...outcome, holding: change(outcome.holding) };
    return { ...decision, reply: { ...decision.reply, outcome: told } };
  },
});

/** With another lease than the one that is held. */
const withLease = (holding: Holding, lease: Partial<Holding["lock"]["lease"]>): Holding => ({
  ...holding,
  lock: { ...holding.lock, lease: { ...holding.lock.lease, ...lease } },
});

/** Every fifth event, if it is the only one of its step, is told after those of the next step. */
class TellsOutOfOrder extends Engine {
  #count = 0;
  #late: readonly FeedEvent[] = [];

  protected override tell(events: readonly FeedEvent[]): void {
    if (events.length === 0) return;
    const late = this.#late;
    this.#late = [];
    if (late.length === 0 && events.length === 1 && ++this.#count % 5 === 0) this.#late = events;
    else super.tell([...events, ...late]);
  }
}

class SecondFirst extends Queue {
  override nth(name: string, nth: number): Waiter | undefined {
    const [first, second, ...others] = this.waiters.filter(({ claim }) => claim.name === name);
    const line = second === undefined ? [first] : [second, first, ...others];
    return line[nth];
  }
}

export const bugsInWords: readonly Bug[] = [
  {
    bug: "names another than the holder",
    breaks: ["I28"],
    rules: tellingOf((holding) => withLease(holding, { principal: "somebody" })),
  },
  {
    bug: "shows of a holder what it did not say",
    breaks: ["I28"],
    rules: tellingOf((holding) => withLease(holding, { metadata: "something" })),
  },
  {
    bug: "tells who is refused half of what the holder has left",
    breaks: ["I28"],
    rules: tellingOf(({ expiresAt, now, ...holding }) => ({
      ...holding,
      now,
      expiresAt: now + Math.floor((expiresAt - now) / 2),
    })),
  },
  {
    bug: "answers a keepalive with more than it gives",
    breaks: ["I18"],
    rules: {
      keepalive: (...call) => {
        const decision = rules.keepalive(...call);
        if ("need" in decision || "refused" in decision.reply) return decision;
        const { session } = decision.reply;
        const told = { ...session, expiresAt: session.expiresAt + 700 };
        return { ...decision, reply: { ...decision.reply, session: told } };
      },
    },
  },
  { bug: "tells some events after those that follow", breaks: ["I29"], engine: TellsOutOfOrder },
  { bug: "serves the second in line first", breaks: ["I25"], queue: SecondFirst },
];
