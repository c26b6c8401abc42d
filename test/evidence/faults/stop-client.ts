// One of the calling processes is stopped for longer than its leases last; the others take over, and then it goes on
// as if nothing had been.
import { usual } from "../workloads.js";
import { again, beyondTtlMs, type Fault, now, type Scene, sleep } from "./fault.js";

/** Short, for the others go on all the time. */
const pause = { fromMs: 300, toMs: 800 };

export const stopClient: Fault = {
  name: "stop-client",
  says: "SIGSTOP of a client for 1.2 to 5 TTLs",
  needs: [],
  workloads: [...usual, "stopped-counter"],
  loads: 2,
  share: 0.4,
  minimums: { inFlight: 10 },
  arrange: () => ({
    during: (scene, over) => again(scene, over, () => stopOne(scene, over), pause),
  }),
};

async function stopOne(scene: Scene, over: AbortSignal): Promise<void> {
  const load = scene.loads[Math.floor(scene.random() * scene.loads.length)];
  if (load === undefined) throw new Error("there is no client");
  const from = now();
  process.kill(load.pid, "SIGSTOP");
  try {
    await sleep(beyondTtlMs(scene), over);
  } finally {
    process.kill(load.pid, "SIGCONT");
  }
  scene.struck(from, now());
}
