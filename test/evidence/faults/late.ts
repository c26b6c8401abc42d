// Requests that reach the server after their caller has given up on them, and others that are only slow.
import { between, type Fault } from "./fault.js";
import { strikeSome } from "./network.js";

const leastMs = 20;
const mostMs = 3000;
/** Longer than a busy machine holds up a request by itself. */
const lateMs = 500;

export const late: Fault = {
  name: "late",
  says: "requests arrive up to 3 s late, most when their caller is gone",
  proof: "the server got the request later than it was sent",
  needs: [],
  isByRequest: true,
  isProxied: true,
  heldUpMs: mostMs,
  share: 0.4,
  minimums: { inFlight: 40, lost: 30, arrivedLate: 30 },
  arrange: () => ({
    during: (scene, over) =>
      strikeSome(
        scene,
        over,
        0.03,
        () => ({ kind: scene.random() < 0.3 ? "delay" : "late", ms: between(scene, leastMs, mostMs) }),
        ({ heldMs }) => {
          if (heldMs >= lateMs) scene.count("arrivedLate");
          return heldMs >= leastMs - 1;
        },
      ),
  }),
};
