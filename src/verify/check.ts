/**
 * The verdict on a history, in two passes.
 *
 * The first takes each name, request id, session and stream by itself and holds replies against replies: no search,
 * and a sentence for each broken promise. The second asks of every name that the first found nothing against whether
 * its operations can be put in one order that explains all replies, by a model that states the rules anew. What the
 * first pass says it can show; what it does not see, the second finds. Neither accuses a history that a correct
 * service can have produced, and a search that was given up is no acquittal: it is `unknown`, and counts as a failure.
 */
import { checkConnections } from "./checker/connections.js";
import { checkGrants } from "./checker/grants.js";
import { checkGraph } from "./checker/graph.js";
import { checkHolders } from "./checker/holders.js";
import { isOp, type Ledger, ledgerOf, type NameFacts, type Noted } from "./checker/ledger.js";
import type { Span } from "./checker/lifetimes.js";
import { Model, type State } from "./checker/model.js";
import { checkOverlaps } from "./checker/overlaps.js";
import { checkQueue } from "./checker/queues.js";
import { checkRequests } from "./checker/requests.js";
import { search } from "./checker/search.js";
import { checkSessions } from "./checker/sessions.js";
import { checkWatches } from "./checker/watches.js";
import { type Accuse, at, told, who } from "./checker/wording.js";
import type { History } from "./history.js";

/** One broken promise. */
export interface Violation {
  /** Which invariant of docs/reliability.md, such as `I2`. */
  readonly invariant: string;
  readonly name: string;
  /** What happened, in a sentence that a person can check against the operations. */
  readonly says: string;
  /** Where in `history.operations` (or, for I29, in `history.seen`). */
  readonly operations: readonly number[];
}

export interface Verdict {
  readonly names: number;
  readonly operations: number;
  readonly violations: readonly Violation[];
  /** Names whose search ended at its bound without an answer: counts as a failure. */
  readonly unknown: readonly string[];
}

/** Where the search of a name ends: the operation that has no place, and the state before it. */
interface Stuck {
  readonly name: NameFacts;
  readonly model: Model;
  readonly noted: Noted;
  readonly state: State;
}

export function check(history: History): Verdict {
  const ledger = ledgerOf(history);
  const violations: Violation[] = [];
  const unknown: string[] = [];
  const accuse: Accuse = (invariant, name, shown, says) =>
    violations.push({ invariant, name, says, operations: shown.map(({ index }) => index) });

  checkSessions(ledger.sessions.values(), history, accuse);
  checkRequests(ledger.requests.values(), history, accuse);
  checkAnswers(ledger, accuse);
  checkOverlaps(ledger, accuse);
  const nodes = checkGraph(ledger, accuse);
  for (const name of ledger.names.values()) {
    checkGrants(name, ledger, accuse);
    checkHolders(name, ledger, accuse);
    checkQueue(name, ledger, accuse);
  }
  violations.push(...checkWatches(ledger), ...checkConnections(ledger));

  const accused = new Set(violations.filter(({ invariant }) => invariant !== "I29").map(({ name }) => name));
  for (const name of ledger.names.values()) {
    if (accused.has(name.name)) continue;
    const finding = search(name, ledger);
    if (finding.kind === "undecided") unknown.push(name.name);
    if (finding.kind !== "stuck") continue;
    const stuck: Stuck = { ...finding, name, model: new Model(name, ledger) };
    accuse(whichPromise(stuck), name.name, [stuck.noted], whyStuck(stuck));
  }
  return { names: ledger.names.size + nodes, operations: history.operations.length, violations, unknown };
}

/** I20: only a failure is uncertain; who is told that it is done is told what. */
function checkAnswers({ history: { operations } }: Ledger, accuse: Accuse): void {
  operations.forEach((operation, index) => {
    const { call, reply } = operation;
    if (reply.kind !== "unknown" || reply.isHollow !== true) return;
    const noted = { ...operation, index };
    accuse("I20", "name" in call ? call.name : call.op, [noted], `an answer that is none: ${told(noted)}`);
  });
}

/** Which invariant an operation breaks that has no place in any order, if the state is what came before it. */
function whichPromise({ name, model, noted, state }: Stuck): string {
  const { call, reply, began, ended } = noted;
  const { held, token } = state;
  const isCurrent = held !== null && "token" in reply && held.token === reply.token;
  const end = held && model.lifetimes.endOf(held);
  const isOver = end === null || began > end.hi;
  switch (reply.kind) {
    case "granted":
      if (isCurrent && !isOver) return "I18";
      if (isOp(noted, "renew") || reply.token <= token)
        return isOp(noted, "renew") || isCurrent ? "I16" : "I9";
      return isOver || ended < end.lo ? "I2" : "I1";
    case "held":
      return reply.token !== null && reply.token <= token && name.byToken.has(reply.token) ? "I3" : "I28";
    case "delayed":
      return "I3";
    case "lost":
      return call.op === "acquire" ? "I19" : "I22";
    case "done": {
      const released = isOp(noted, "release") ? name.byRef.get(noted.call.lease) : undefined;
      return held !== null && held.token !== released?.token ? "I17" : "I16";
    }
    default:
      return isCurrent && isOver ? "I3" : "I28";
  }
}

/** The best explanation that there is, and what it cannot explain. */
function whyStuck({ model, noted, state: { held, token, delay } }: Stuck): string {
  const until = ({ lo, hi }: Span): string => `until between ${at(lo)} and ${at(hi)}`;
  const lull = delay.hi > 0 ? `, with a lock delay ${until(delay)}` : "";
  const [by] = held?.by ?? [];
  const before =
    held === null || by === undefined
      ? `it was free after token ${token}${lull}`
      : `token ${held.token} of ${who(by)} held it ${until(model.lifetimes.endOf(held))}`;
  return `no order of its operations explains this one: ${told(noted)}. In the best of them ${before}`;
}
