// Nothing passes between a server and its callers for a while; what was sent meanwhile arrives afterwards.
import { nobodyHeard } from "../proofs.js";
import { again, beyondTtl, type Fault, oneOf } from "./fault.js";

export const partition: Fault = {
  name: "partition",
  says: "nothing passes for 1.2 to 5 TTLs, then all of it",
  proof: "nobody who asks there heard anything while it lasted",
  needs: [],
  isProxied: true,
  share: 0.25,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const node = oneOf(scene);
        const { proxy } = node;
        const window = await beyondTtl(
          scene,
          over,
          () => proxy.part(),
          () => proxy.heal(),
        );
        if (window !== null) scene.struck(window, nobodyHeard(node, window));
      }),
  }),
};
