// The server is stopped for longer than leases last and goes on as if nothing had been.
import { again, beyondTtlMs, type Fault, now, sleep } from "./fault.js";

export const stopServer: Fault = {
  name: "stop-server",
  says: "SIGSTOP of the server for 1.2 to 5 TTLs",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 8 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const from = now();
        scene.server.kill("SIGSTOP");
        await sleep(beyondTtlMs(scene), over);
        scene.server.kill("SIGCONT");
        scene.struck(from, now());
      }),
  }),
};
