// No fault: what the workloads reach when nothing happens to the server.
import type { Fault } from "./fault.js";

export const none: Fault = {
  name: "none",
  says: "nothing happens",
  proof: "nothing",
  needs: [],
  share: 1,
  minimums: {},
  arrange: () => ({ during: async () => undefined }),
};
