// The server is stopped for longer than leases last and goes on as if nothing had been.
import { nobodyHeard } from "../proofs.js";
import { again, beyondTtl, type Fault } from "./fault.js";

export const stopServer: Fault = {
  name: "stop-server",
  says: "SIGSTOP of the server for 1.2 to 5 TTLs",
  proof: "no reply came while it lasted",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const { server } = scene;
        const window = await beyondTtl(
          scene,
          over,
          () => server.kill("SIGSTOP"),
          () => server.kill("SIGCONT"),
        );
        if (window !== null) scene.struck(window, nobodyHeard(window));
      }),
  }),
};
