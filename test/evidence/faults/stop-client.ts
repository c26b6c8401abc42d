// One of the calling processes is stopped for longer than its leases last; the others take over, and then it goes on
// as if nothing had been.
import { clientWasStill } from "../proofs.js";
import { usual } from "../workloads.js";
import { again, beyondTtl, type Fault, type Scene } from "./fault.js";

/** Short, for the others go on all the time. */
const pause = { fromMs: 300, toMs: 800 };

export const stopClient: Fault = {
  name: "stop-client",
  says: "SIGSTOP of a client for 1.2 to 5 TTLs",
  proof: "a client that had been at work began no call while it lasted",
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
  const nth = Math.floor(scene.random() * scene.loads.length);
  const load = scene.loads[nth];
  if (load === undefined) throw new Error("there is no client");
  const window = await beyondTtl(
    scene,
    over,
    () => load.signal("SIGSTOP"),
    () => load.signal("SIGCONT"),
  );
  if (window !== null) scene.struck(window, clientWasStill(nth, window));
}
