// Nothing passes between the callers and the server for a while; what was sent meanwhile arrives afterwards.
import { again, beyondTtlMs, type Fault, now, sleep } from "./fault.js";

export const partition: Fault = {
  name: "partition",
  says: "nothing passes for 1.2 to 5 TTLs, then all of it",
  needs: [],
  isProxied: true,
  share: 0.25,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const from = now();
        scene.proxy.part();
        await sleep(beyondTtlMs(scene), over);
        scene.proxy.heal();
        scene.struck(from, now());
      }),
  }),
};
