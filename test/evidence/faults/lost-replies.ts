// Replies are lost after the server did what was asked.
import type { Fault } from "./fault.js";
import { strikeSome } from "./network.js";

export const lostReplies: Fault = {
  name: "lost-replies",
  says: "replies are lost after the commit",
  proof: "the reply was seen, and its caller cut off",
  needs: [],
  isByRequest: true,
  isProxied: true,
  share: 0.5,
  minimums: { inFlight: 60, lost: 60, lostGrants: 15 },
  arrange: () => ({
    during: (scene, over) =>
      strikeSome(
        scene,
        over,
        0.04,
        () => ({ kind: "lose-reply" }),
        ({ answer }) => {
          if (answer?.status === 200 && answer.body.includes('"acquired"')) scene.count("lostGrants");
          return answer !== null;
        },
      ),
  }),
};
