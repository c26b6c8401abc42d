// Requests that reach the server after their caller has given up on them, and others that are only slow.
import { between, type Fault } from "./fault.js";
import { strikeSome } from "./network.js";

export const late: Fault = {
  name: "late",
  says: "requests arrive up to 3 s late, most when their caller is gone",
  needs: [],
  isProxied: true,
  share: 0.4,
  minimums: { inFlight: 40, unknown: 30 },
  arrange: () => ({
    during: (scene, over) =>
      strikeSome(scene, over, 0.03, () => ({
        kind: scene.random() < 0.3 ? "delay" : "late",
        ms: between(scene, 20, 3000),
      })),
  }),
};
