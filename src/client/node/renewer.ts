/** The renewing thread of a Node process: renews whatever it is told to, whatever the main thread is busy with. */
import { parentPort } from "node:worker_threads";
import { thisMoment } from "../durations.js";
import { LeaseState } from "../lease-state.js";
import { Renewal } from "../renewal.js";
import type { FromRenewer, ToRenewer } from "./messages.js";

const port = parentPort;
if (port === null) throw new Error("renewer.js runs as a worker thread");
const renewals = new Map<number, Renewal>();
const tell = (said: FromRenewer): void => port.postMessage(said);

port.on("message", (message: ToRenewer) => {
  const { id } = message;
  if (message.type === "drop") {
    renewals.get(id)?.stop();
    renewals.delete(id);
    return;
  }
  const { options, granted, memory, at } = message;
  // A clock of this thread's own began later than the sender's, so it shows less. What the message took on its way
  // makes the difference smaller than it is, and the lease trusted for that much less.
  const offsetMs = Math.min(0, thisMoment().monotonic - at);
  const { monotonic, wall } = granted.sentAt;
  const sentAt = { monotonic: monotonic + offsetMs, wall };
  const lost = (why: string): void => {
    renewals.delete(id);
    tell({ type: "lost", id, why });
  };
  const state = new LeaseState(memory, offsetMs);
  renewals.set(id, new Renewal({ ...options, fetch }, { ...granted, sentAt }, state, lost));
  tell({ type: "kept", id });
});

// Runtimes load what fetches only when it is used, which takes longer than the first renewal may.
await fetch("data:,").catch(() => undefined);
tell({ type: "ready" });
