// A server is stopped for longer than leases last and goes on as if nothing had been.
import { nobodyHeard } from "../proofs.js";
import { again, beyondTtl, type Fault, oneOf } from "./fault.js";

export const stopServer: Fault = {
  name: "stop-server",
  says: "SIGSTOP of a server for 1.2 to 5 TTLs",
  proof: "nobody who asks it heard anything while it lasted",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const node = oneOf(scene);
        const { server } = node;
        const window = await beyondTtl(
          scene,
          over,
          () => server.kill("SIGSTOP"),
          () => server.kill("SIGCONT"),
        );
        if (window === null) return;
        scene.upset(window);
        scene.struck(window, nobodyHeard(node, window));
      }),
  }),
};
