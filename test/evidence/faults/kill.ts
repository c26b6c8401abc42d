// kill -9 of the server in the middle of its work, and a start on the data that it left.
import { endsSoon, isReplaced, seen } from "../proofs.js";
import { again, type Fault, now } from "./fault.js";

export const kill: Fault = {
  name: "kill",
  says: "kill -9 of the server, and a new start",
  proof: "the process was ended by the signal, and another answered",
  needs: [],
  share: 0.25,
  minimums: { inFlight: 10, lost: 10 },
  arrange: () => ({
    during: (scene, over) =>
      again(scene, over, async () => {
        const { server } = scene;
        const from = now();
        server.kill("SIGKILL");
        const hasEnded = await endsSoon(server);
        if (hasEnded) scene.server = await server.restart();
        scene.struck({ from, to: from }, seen(hasEnded && (await isReplaced(server, scene.server, null))));
      }),
  }),
};
