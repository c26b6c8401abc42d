// kill -9 of the server in the middle of its work, and a start on the data that it left.
import { again, type Fault, now } from "./fault.js";

export const kill: Fault = {
  name: "kill",
  says: "kill -9 of the server, and a new start",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 10, unknown: 10 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        scene.struck(now());
        scene.server.kill("SIGKILL");
        await scene.server.exited;
        scene.server = await scene.server.restart();
      }),
  }),
};
